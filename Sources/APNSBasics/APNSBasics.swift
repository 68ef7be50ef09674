// APNSBasics holds values that at least two targets need and that neither the standard library nor a target's own subject
// provides: Base64, hexadecimal digits, seeded random numbers.
//
// It does not hold I/O, clocks, locks, actors, anything of HTTP/2 or APNs, or helpers that one target uses alone. It
// has no dependency, is no product, and everything in it is `package`. It compiles for iOS, as `APNSSealing` does.
