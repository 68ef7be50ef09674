#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// The wall clock.
enum WallClock {
    static func secondsSince1970() -> Int64 { Int64(time(nil)) }
}
