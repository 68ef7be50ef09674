// APNSBasics contains values that at least two targets need and that the standard library does not provide: Base64,
// hexadecimal digits, calendar days, seeded random numbers, and a value that a task waits for (`OneShot`).
//
// It contains no I/O, clocks or actors, nothing of HTTP/2 or APNs, and no helpers that only one target uses. It
// has no dependency, is not a product, and everything in it is `package`. It compiles for iOS, as `APNSSealing` does.
