@testable import APNSTransport

/// One HTTP/2 frame, laid out by hand (RFC 9113, section 4.1), so that a bug in nghttp2 cannot hide itself.
struct Frame: Equatable {
    enum Kind: UInt8 {
        case data = 0, headers, priority, reset, settings, pushPromise, ping, goAway, windowUpdate, continuation
    }

    static let endStream: UInt8 = 0x1
    static let ack: UInt8 = 0x1
    static let endHeaders: UInt8 = 0x4

    var type: UInt8
    var flags: UInt8 = 0
    var streamID: Int32 = 0
    var payload: [UInt8] = []

    var kind: Kind? { Kind(rawValue: self.type) }
    var endsStream: Bool { self.flags & Self.endStream != 0 }

    var bytes: [UInt8] {
        let count = self.payload.count
        return [UInt8(truncatingIfNeeded: count >> 16), UInt8(truncatingIfNeeded: count >> 8), UInt8(count & 0xFF)]
            + [self.type, self.flags] + bigEndian(UInt32(bitPattern: self.streamID)) + self.payload
    }

    init(_ kind: Kind, flags: UInt8 = 0, stream: Int32 = 0, _ payload: [UInt8] = []) {
        self.init(type: kind.rawValue, flags: flags, streamID: stream, payload: payload)
    }

    init(type: UInt8, flags: UInt8, streamID: Int32, payload: [UInt8]) {
        self.type = type
        self.flags = flags
        self.streamID = streamID
        self.payload = payload
    }

    /// All whole frames in `bytes`, which may begin with a client's preface.
    static func parse(_ bytes: [UInt8]) -> [Frame] {
        let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
        var rest = bytes[...]
        if rest.starts(with: preface) { rest = rest.dropFirst(preface.count) }
        var frames: [Frame] = []
        while rest.count >= 9 {
            let head = Array(rest.prefix(9))
            let count = Int(head[0]) << 16 | Int(head[1]) << 8 | Int(head[2])
            guard rest.count >= 9 + count else { break }
            let id = head[5...8].reduce(Int32(0)) { $0 << 8 | Int32($1) }
            frames.append(
                Frame(type: head[3], flags: head[4], streamID: id, payload: Array(rest.dropFirst(9).prefix(count)))
            )
            rest = rest.dropFirst(9 + count)
        }
        return frames
    }

    // MARK: Frames from a server

    static func settings(_ settings: [(UInt16, UInt32)] = []) -> Frame {
        Frame(.settings, settings.flatMap { bigEndian(UInt32($0.0)).suffix(2) + bigEndian($0.1) })
    }

    static func settings(maxConcurrentStreams limit: UInt32) -> Frame {
        let entry: (UInt16, UInt32) = (3, limit)
        return Frame.settings([entry])
    }

    static var settingsAck: Frame { Frame(.settings, flags: Self.ack) }

    static func ping(_ byte: UInt8 = 0) -> Frame { Frame(.ping, [UInt8](repeating: byte, count: 8)) }

    static func goAway(_ last: Int32, _ code: HTTP2ErrorCode = .noError, debug: String = "") -> Frame {
        Frame(.goAway, bigEndian(UInt32(bitPattern: last)) + bigEndian(code.rawValue) + Array(debug.utf8))
    }

    static func reset(_ stream: Int32, _ code: HTTP2ErrorCode) -> Frame {
        Frame(.reset, stream: stream, bigEndian(code.rawValue))
    }

    static func data(_ stream: Int32, _ text: String, end: Bool) -> Frame {
        Frame(.data, flags: end ? Self.endStream : 0, stream: stream, Array(text.utf8))
    }

    static func headers(
        _ stream: Int32,
        status: Int,
        _ fields: [(String, String)] = [],
        end: Bool = false,
        endHeaders: Bool = true
    ) -> Frame {
        .headers(stream, [(":status", String(status))] + fields, end: end, endHeaders: endHeaders)
    }

    static func headers(
        _ stream: Int32,
        _ fields: [(String, String)],
        end: Bool = false,
        endHeaders: Bool = true
    ) -> Frame {
        let flags = (end ? Self.endStream : 0) | (endHeaders ? Self.endHeaders : 0)
        return Frame(.headers, flags: flags, stream: stream, Self.block(fields))
    }

    /// The header block of a client's request: POST, https, `/`.
    static func request(_ stream: Int32, end: Bool) -> Frame {
        Frame(
            .headers,
            flags: Self.endHeaders | (end ? Self.endStream : 0),
            stream: stream,
            [0x83, 0x87, 0x84] + Self.block([(":authority", "localhost")])
        )
    }

    /// Literal fields without indexing, names and values not compressed (RFC 7541, section 6.2.2).
    static func block(_ fields: [(String, String)]) -> [UInt8] {
        fields.flatMap { name, value in [0] + Self.string(name) + Self.string(value) }
    }

    private static func string(_ text: String) -> [UInt8] {
        var length = text.utf8.count
        guard length >= 127 else { return [UInt8(length)] + Array(text.utf8) }
        var bytes: [UInt8] = [127]
        length -= 127
        while length >= 128 {
            bytes.append(UInt8(length & 0x7F | 0x80))
            length >>= 7
        }
        return bytes + [UInt8(length)] + Array(text.utf8)
    }
}

func bigEndian(_ value: UInt32) -> [UInt8] {
    [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: value >> $0) }
}

/// One field of a header block as it stands on the wire (RFC 7541, section 6). Strings keep their encoded form.
struct FieldRepresentation: Equatable {
    enum Form { case indexed, literalIndexed, literalWithout, literalNever, tableSize }
    var form: Form
    /// Index of the whole field or of its name; 0: the name is spelled out.
    var index: Int

    static func decode(_ block: [UInt8]) -> [FieldRepresentation] {
        var position = 0
        func integer(_ bits: Int) -> Int {
            let mask = (1 << bits) - 1
            var value = Int(block[position]) & mask
            position += 1
            guard value == mask else { return value }
            var shift = 0
            while position < block.count {
                let byte = Int(block[position])
                position += 1
                value += (byte & 0x7F) << shift
                shift += 7
                if byte & 0x80 == 0 { break }
            }
            return value
        }
        func skipString() { position += integer(7) }
        var fields: [FieldRepresentation] = []
        while position < block.count {
            let byte = block[position]
            if byte & 0x80 != 0 {
                fields.append(FieldRepresentation(form: .indexed, index: integer(7)))
                continue
            }
            if byte & 0xE0 == 0x20 {
                fields.append(FieldRepresentation(form: .tableSize, index: integer(5)))
                continue
            }
            let form: Form = byte & 0x40 != 0 ? .literalIndexed : byte & 0x10 != 0 ? .literalNever : .literalWithout
            let index = integer(form == .literalIndexed ? 6 : 4)
            fields.append(FieldRepresentation(form: form, index: index))
            if index == 0 { skipString() }
            skipString()
        }
        return fields
    }
}
