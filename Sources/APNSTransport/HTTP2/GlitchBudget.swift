import NIOCore

/// Limits the work that a peer can cause without advancing a request. A value; time is a parameter.
///
/// HTTP/2 and TLS allow a peer to send frames that bring nothing, such as PING, SETTINGS, small WINDOW_UPDATE, unknown
/// types, empty DATA, and frames on closed streams. Each is legal, but an endless sequence of them keeps a core busy.
/// This budget counts such frames and bytes as *glitches*, the word that HAProxy and nghttp2 1.67 use. A session
/// ends when its peer has used up the budget.
///
/// Every frame and every TLS record costs one glitch, plus one for each KiB. A read from the network that completes no
/// record costs one. Time and progress earn glitches back: a stream that advances earns more than any known server
/// spends on it. So the budget runs low only if a peer sends much that advances nothing, and the session does not have
/// to decide which frames are useful.
struct GlitchBudget {
    /// How many glitches a peer may cause at once. nghttp2 1.69 has the same limit. 10,000 PINGs take two milliseconds
    /// of CPU time, as much as a few TLS handshakes, or about 50 milliseconds if each PING is a packet of its own.
    static let capacity = 10_000
    /// How many glitches a second a peer may cause for ever. If each of them is a packet of its own, they take less
    /// than one percent of a core.
    static let perSecond = 500
    /// What a stream earns once: on a client, when its final HEADERS arrive or it ends without them; on a server, when
    /// its request's HEADERS arrive. A response takes two to five frames and records, including the WINDOW_UPDATEs for
    /// its request.
    static let perStream = 16
    /// How many bytes of a body must be kept to earn one glitch. A DATA frame of this size pays for itself.
    static let keptBytesPerGlitch = 64
    /// The additional cost of a TLS record without data, such as a key update or a session ticket, and of SETTINGS,
    /// PRIORITY and GOAWAY, which can change every stream. Each takes 5 to 20 microseconds; a PING takes 0.1.
    static let perCostlyEvent = 16

    private static let interval = TimeAmount.nanoseconds(1_000_000_000 / Int64(perSecond))

    private var balance = capacity
    /// The smallest number of glitches that was left after any read.
    private(set) var lowest = capacity
    /// The time up to which time has earned glitches.
    private var refilled: NIODeadline?
    private var keptBytes = 0

    // The position in the sequence of frames. nghttp2 does not report all frames that it ignores.
    /// How many bytes to skip before the next frame header.
    private var skipped: Int
    /// The first four bytes of the current frame header, as far as they have arrived: length and type.
    private var header: UInt32 = 0
    private var headerCount = 0

    /// - Parameter prefixCount: The number of bytes before the first frame: a client's connection preface.
    init(prefixCount: Int) {
        self.skipped = prefixCount
    }

    /// Counts the frames that begin in `bytes`.
    ///
    /// - Parameters:
    ///   - bytes: The data of one TLS record.
    ///   - overhead: The bytes and records around this data.
    mutating func read(_ bytes: UnsafeRawBufferPointer, _ overhead: TLSOverhead) {
        let kibibytes = overhead.bytes >> 10
        self.balance -= 1 + kibibytes + Self.perCostlyEvent * overhead.emptyRecords
        var position = 0
        while position < bytes.count {
            if self.skipped > 0 {
                let count = min(self.skipped, bytes.count - position)
                self.skipped -= count
                position += count
            } else if self.headerCount == 0, bytes.count - position >= 9 {
                let length = Int(bytes[position]) << 16 | Int(bytes[position + 1]) << 8 | Int(bytes[position + 2])
                self.begin(length: length, type: Int(bytes[position + 3]))
                position += 9
            } else {
                if self.headerCount < 4 { self.header = self.header << 8 | UInt32(bytes[position]) }
                self.headerCount += 1
                position += 1
                guard self.headerCount == 9 else { continue }
                self.headerCount = 0
                self.begin(length: Int(self.header >> 8), type: Int(self.header & 0xFF))
            }
        }
    }

    private mutating func begin(length: Int, type: Int) {
        self.skipped = length
        // HEADERS and CONTINUATION: each byte can be a field. nghttp2 decompresses blocks on closed streams, too, but
        // does not report them, so `decompressed` is not called.
        let shift = type == 1 || type == 9 ? 8 : 10
        self.balance -= 1 + (length >> shift)
    }

    /// Counts a read from the network that completed no record with data.
    mutating func readNothing() {
        self.balance -= 1
    }

    /// SETTINGS, PRIORITY or GOAWAY was processed.
    mutating func costlyFrame() {
        self.balance -= Self.perCostlyEvent
    }

    /// A header block was decompressed to this many bytes. A small block can become a large one.
    mutating func decompressed(_ bytes: Int) {
        self.balance -= bytes >> 10
    }

    /// A stream advanced. Called once for each stream.
    mutating func streamAdvanced() {
        self.balance += Self.perStream
    }

    /// This many more bytes of a body are kept.
    mutating func kept(_ count: Int) {
        self.keptBytes += count
        self.balance += self.keptBytes / Self.keptBytesPerGlitch
        self.keptBytes %= Self.keptBytesPerGlitch
    }

    /// Whether the peer has used up the budget. Called after each read.
    mutating func isExhausted(now: NIODeadline) -> Bool {
        self.refill(now)
        self.balance = min(self.balance, Self.capacity)
        self.lowest = min(self.lowest, self.balance)
        return self.balance < 0
    }

    private mutating func refill(_ now: NIODeadline) {
        guard let refilled, self.balance < Self.capacity else {
            self.refilled = now
            return
        }
        let elapsed = now - refilled
        guard elapsed >= Self.interval else { return }
        let count = elapsed.nanoseconds / Self.interval.nanoseconds
        self.balance += Int(min(count, Int64(Self.capacity)))
        self.refilled = refilled + .nanoseconds(count * Self.interval.nanoseconds)
    }

    /// Why the session ends.
    static let error = WireError(
        .flooded,
        """
        the peer sent too much that advances no request: more than \(capacity) frames and records, and more than \
        \(perSecond) a second, where large and costly ones count several times
        """
    )
}
