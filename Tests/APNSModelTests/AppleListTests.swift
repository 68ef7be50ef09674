import APNSModel
import Foundation
import TestSupport
import Testing

/// The tables of the sources have what Apple's pages have: `Tests/Reference/apns.txt`, which was written down from the pages.
struct AppleListTests {
    private static func items(_ section: String) throws -> Set<String> {
        let file = DocumentedCode.root.appendingPathComponent("Tests/Reference/apns.txt")
        let text = try String(contentsOf: file, encoding: .utf8)
        let part = try #require(text.components(separatedBy: "[\(section)]\n").dropFirst().first)
        return Set(part.prefix { $0 != "[" }.split(whereSeparator: \.isWhitespace).map(String.init))
    }

    @Test("The push types are Apple's") func pushTypes() throws {
        #expect(try Set(PushType.known.map(\.rawValue)) == Self.items("Push types"))
    }

    @Test("The table has every reason that Apple lists, some of them under their second name, and no other one")
    func reasons() throws {
        let listed = try Self.items("Reasons")
        for name in listed { #expect(RejectionReason(rawValue: name).status != nil, "\(name)") }
        #expect(Set(RejectionReason.known.map(\.rawValue)).isSubset(of: listed))
    }
}
