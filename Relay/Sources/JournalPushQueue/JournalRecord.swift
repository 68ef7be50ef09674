import APNSModel
import PushQueue

/// A command, or a part of a large one, as a record of the journal.
struct JournalRecord: Sendable {
    private static let version: UInt8 = 1

    /// The process that made the command.
    var session: APNSID
    /// Which of its commands it is.
    var number: UInt64
    /// The process waits for no command with a smaller number, so that a late copy of one has no effect.
    var floor: UInt64
    /// A command that is stored later has no effect, by the clock of the storage; nil for no limit.
    var validUntil: QueueTime?
    var part: UInt32
    var parts: UInt32
    var body: [UInt8]

    static let overhead = 64
    private static let noLimit = QueueTime(millisecondsSince1970: .max)

    var bytes: [UInt8] {
        var writer = ByteWriter()
        writer.write(Self.version)
        writer.write(self.session)
        writer.write(self.number)
        writer.write(self.floor)
        writer.write(self.validUntil ?? Self.noLimit)
        writer.write(self.part)
        writer.write(self.parts)
        writer.write(self.body)
        return writer.bytes
    }

    init(
        session: APNSID,
        number: UInt64,
        floor: UInt64,
        validUntil: QueueTime?,
        part: UInt32,
        parts: UInt32,
        body: [UInt8]
    ) {
        self.session = session
        self.number = number
        self.floor = floor
        self.validUntil = validUntil
        self.part = part
        self.parts = parts
        self.body = body
    }

    init(_ bytes: [UInt8]) throws(MalformedBytes) {
        var reader = ByteReader(bytes)
        guard try reader.integer(UInt8.self) == Self.version else { throw MalformedBytes() }
        self.session = try reader.id()
        self.number = try reader.integer()
        self.floor = try reader.integer()
        let validUntil = try reader.time()
        self.validUntil = validUntil == Self.noLimit ? nil : validUntil
        self.part = try reader.integer()
        self.parts = try reader.integer()
        self.body = try reader.array()
    }

    /// The records of a command.
    static func records(
        _ body: [UInt8],
        session: APNSID,
        number: UInt64,
        floor: UInt64,
        validUntil: QueueTime?,
        maximum: Int
    ) -> [JournalRecord] {
        let size = max(maximum - Self.overhead, 1)
        let starts = Array(stride(from: 0, to: max(body.count, 1), by: size))
        return starts.enumerated().map { index, start in
            JournalRecord(
                session: session,
                number: number,
                floor: floor,
                validUntil: validUntil,
                part: UInt32(clamping: index),
                parts: UInt32(clamping: starts.count),
                body: Array(body[start..<min(start + size, body.count)])
            )
        }
    }
}

/// The body of a record: a command and the times at which it happens.
struct TimedCommand {
    /// Nil to use the time at which the record was stored.
    var times: (now: QueueTime, lease: QueueTime)?
    var command: QueueCommand

    var bytes: [UInt8] {
        var writer = ByteWriter()
        writer.write(self.times != nil)
        if let times = self.times {
            writer.write(times.now)
            writer.write(times.lease)
        }
        self.command.write(to: &writer)
        return writer.bytes
    }

    init(times: (now: QueueTime, lease: QueueTime)?, command: QueueCommand) {
        self.times = times
        self.command = command
    }

    init(_ bytes: [UInt8]) throws(MalformedBytes) {
        var reader = ByteReader(bytes)
        if try reader.bool() { self.times = (try reader.time(), try reader.time()) }
        self.command = try QueueCommand(from: &reader)
        guard reader.remaining == 0 else { throw MalformedBytes() }
    }
}
