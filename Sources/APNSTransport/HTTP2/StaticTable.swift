/// The part of HPACK's static table that requests use (RFC 7541, appendix A).
enum StaticTable {
    static let count = 61
    private static let fields: [(index: Int, name: String, value: String)] = [
        (2, ":method", "GET"), (3, ":method", "POST"), (6, ":scheme", "http"), (7, ":scheme", "https"),
    ]
    private static let names: [(index: Int, name: String)] = [
        (1, ":authority"), (2, ":method"), (4, ":path"), (6, ":scheme"), (23, "authorization"),
        (28, "content-length"), (31, "content-type"), (58, "user-agent"),
    ]

    /// 0 if the field is not in this part of the table.
    static func index(name: String, value: String) -> Int {
        self.fields.first { $0.name == name && $0.value == value }?.index ?? 0
    }

    /// 0 if the name is not in this part of the table.
    static func index(name: String) -> Int { self.names.first { $0.name == name }?.index ?? 0 }
}
