public import APNSModel

extension APNSID {
    /// An id that begins with the time, version 7 (RFC 9562 §5.7).
    ///
    /// Use it where no caller gives an id. Ids of pushes that are stored together then lie together in an engine's index
    /// of ids, so storing them writes few pages. With random ids, each push writes a page of its own once there are
    /// millions.
    ///
    /// - Parameters:
    ///   - time: when the push was handed in. The id has 48 bits for it.
    ///   - generator: the source of the other 74 bits.
    public static func timeOrdered(at time: QueueTime, using generator: inout some RandomNumberGenerator) -> APNSID {
        let milliseconds = UInt64(clamping: time.millisecondsSince1970) & 0xFFFF_FFFF_FFFF
        return APNSID(
            high: milliseconds << 16 | 0x7000 | generator.next() & 0x0FFF,
            low: generator.next() & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000
        )
    }
}
