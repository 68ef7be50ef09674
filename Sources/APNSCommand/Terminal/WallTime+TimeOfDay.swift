extension WallTime {
    /// Writes a time in seconds since 1970 as the time of day in the local time zone, for example `14:05`.
    static func timeOfDay(_ seconds: Int64) -> String {
        var time = time_t(seconds)
        var parts = tm()
        guard localtime_r(&time, &parts) != nil else { return "\(seconds) s since 1970" }
        func two(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
        return "\(two(parts.tm_hour)):\(two(parts.tm_min))"
    }
}
