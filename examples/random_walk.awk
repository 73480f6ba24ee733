# The end of a walk of 100 steps, each up (+1) with probability (1 + drift) / 2 and else down (-1).
#
#     awk -v drift=0.2 -v seed=12345 -f random_walk.awk
#
# srand() takes 32 bits of a seed at most, and rand() differs from awk to awk. So the script has a generator of its own,
# that of L'Ecuyer (1988, Communications of the ACM 31:742): two linear congruential ones whose products stay below
# 2^53, where awk's numbers are exact. All digits of a 64-bit seed count, and every awk gives the same walk.

function remainder(digits, modulus,    i, r) {
    r = 0
    for (i = 1; i <= length(digits); i++) r = (r * 10 + substr(digits, i, 1)) % modulus
    return r
}

function uniform(    z) {
    first = (first * 40014) % 2147483563
    second = (second * 40692) % 2147483399
    z = first - second
    if (z < 1) z += 2147483562
    return z / 2147483563
}

BEGIN {
    if (seed !~ /^[0-9]+$/ || drift == "" || drift < -1 || drift > 1) {
        print "give a whole number as seed, and drift from -1 to 1" > "/dev/stderr"
        exit 2  # a simulation that fails must say so: an exit status of 0 is a result
    }
    first = 1 + remainder(seed, 2147483562)
    second = 1 + remainder(seed, 2147483398)
    for (i = 0; i < 10; i++) uniform()  # small seeds start alike
    for (i = 0; i < 100; i++) place += (uniform() < (1 + drift) / 2) ? 1 : -1
    print place
}
