/// An object of a response, with its members in order. Those that are nil are left out.
struct JSONObject: Encodable, ExpressibleByDictionaryLiteral {
    private struct Name: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }

        init(stringValue: String) { self.stringValue = stringValue }

        init?(intValue: Int) { nil }
    }

    private var members: [(key: String, value: any Encodable)] = []

    init() {}

    init(dictionaryLiteral members: (String, (any Encodable)?)...) {
        for (key, value) in members { self[key] = value }
    }

    /// Adds a member that is not there yet.
    subscript(key: String) -> (any Encodable)? {
        get { self.members.first { $0.key == key }?.value }
        set { if let newValue { self.members.append((key, newValue)) } }
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Name.self)
        for (key, value) in self.members { try container.encode(value, forKey: Name(stringValue: key)) }
    }
}
