import APNSModel
import Foundation
import Testing

@testable import APNSRelay

struct PayloadTemplateTests {
    private static func payload(_ template: String, _ values: String = "{}", defaults: String = "{}") throws -> String {
        let payload = try PayloadTemplate(Array(template.utf8))
            .payload(PlaceholderValues(Array(values.utf8)), defaults: PlaceholderValues(Array(defaults.utf8)))
        return String(decoding: payload, as: UTF8.self)
    }

    @Test(
        "Placeholders are replaced",
        arguments: [
            (#"{"a":"Hi {{name}}!"}"#, #"{"name":"Ann"}"#, #"{"a":"Hi Ann!"}"#),
            (#"{"a":"{{x}}{{y}}"}"#, #"{"x":"1","y":2}"#, #"{"a":"12"}"#),
            (#"{"badge":"{{n}}"}"#, #"{"n":3}"#, #"{"badge":3}"#),
            (#"{"on":"{{n}}"}"#, #"{"n":true}"#, #"{"on":true}"#),
            (#"{"a":"{{n}}"}"#, #"{"n":"3"}"#, #"{"a":"3"}"#),
            (#"{"a":" {{n}}"}"#, #"{"n":3}"#, #"{"a":" 3"}"#),
            // Escape sequences stay as they are, and no value ends its string.
            (#"{"a":"\"{{n}}\""}"#, #"{"n":"\"\\\u00e9é"}"#, #"{"a":"\"\"\\\u00e9é\""}"#),
            // A key stays a string.
            (#"{"{{n}}" : 1}"#, #"{"n":3}"#, #"{"3" : 1}"#),
            // Values are inserted once.
            (#"{"a":"{{x}}"}"#, #"{"x":"{{y}}","y":"no"}"#, #"{"a":"{{y}}"}"#),
            // Spaces around the name are allowed.
            (#"{"a":"{{ x }} {{x  }}","n":"{{ x }}"}"#, #"{"x":1}"#, #"{"a":"1 1","n":1}"#),
            // These are no placeholders, and neither is an object in an object.
            (#"{"a":"{x} }} { {x}","b":{"c":{}}}"#, #"{"x":1}"#, #"{"a":"{x} }} { {x}","b":{"c":{}}}"#),
            // This is how to send two braces.
            (#"{"a":"{{open}}x}}"}"#, #"{"open":"{{"}"#, #"{"a":"{{x}}"}"#),
            (#"{"a":"\\{{x}}","b":{"c":[]}}"#, #"{"x":1}"#, #"{"a":"\\1","b":{"c":[]}}"#),
        ]
    )
    func replacement(_ template: String, _ values: String, _ expected: String) throws {
        #expect(try Self.payload(template, values) == expected)
    }

    @Test(
        "Two braces that begin no placeholder are an error that shows them and the form",
        arguments: [
            "{{}}", "{{ }}", "{{first-name}}", "{{user.name}}", "{{{name}}}", "{{name}", "{{name", "{{ first name }}",
            "{{größe}}",
            "{{#if x}}", "{{name|Ann}}", "{{\(String(repeating: "n", count: 65))}}",
        ]
    )
    func noPlaceholder(_ text: String) throws {
        for template in [#"{"a":"Hi \#(text)!"}"#, #"{"\#(text)":1}"#, #"{"a":"{{x}}\#(text)"}"#] {
            let fault = #expect(throws: PushFault.self) { try Self.payload(template, #"{"x":1,"name":2}"#) }
            #expect(fault?.field == "payload" && fault?.message.contains("such as {{name}}") == true)
            #expect(fault?.message.contains(text.prefix(20)) == true)
        }
    }

    @Test("A device's value takes precedence over the default")
    func defaults() throws {
        let template = #"{"a":"{{x}} {{y}}"}"#
        #expect(try Self.payload(template, #"{"x":1}"#, defaults: #"{"x":2,"y":3}"#) == #"{"a":"1 3"}"#)
    }

    @Test("A placeholder without a value is an error that names it")
    func missing() throws {
        let fault = #expect(throws: PushFault.self) { try Self.payload(#"{"a":"{{x}} {{name}}"}"#, #"{"x":1}"#) }
        #expect(fault?.field == "values" && fault?.message.contains("{{name}}") == true)
    }

    @Test("A value that is not a string, a number or a boolean is an error", arguments: ["null", "[]", "{}"])
    func wrongValue(_ value: String) throws {
        let fault = #expect(throws: PushFault.self) { try Self.payload("{}", #"{"x":\#(value)}"#) }
        #expect(fault?.field == "values.x")
    }

    @Test("The payload of random templates and values is JSON with the values in it")
    func random() throws {
        var random = SystemRandomNumberGenerator()
        let texts = ["{{a}}", "{{b}}", "{{c}}", "{", "}", "\"", "\\", "é", "\u{0}", " ", "-", "{{", "}}", "/"]
        func text() -> String {
            (0..<Int.random(in: 0...5)).map { _ in texts.randomElement(using: &random) ?? "" }.joined()
        }
        for _ in 0..<2_000 {
            let strings = (0..<3).map { _ in text() }
            let values: [String: any Sendable] = [
                "a": text(), "b": Int.random(in: 0...9), "c": text() + "!", "x": true,
            ]
            let template = try JSONSerialization.data(withJSONObject: ["x": strings, "k" + strings[0]: "{{a}}"])
            let json = try JSONSerialization.data(withJSONObject: values)
            let parsed: PayloadTemplate
            do {
                parsed = try PayloadTemplate(Array(template))
            } catch {
                #expect(strings.contains { $0.contains("{{") })
                continue
            }
            let payload = try parsed.payload(PlaceholderValues(Array(json)), defaults: .none)
            let object = try #require(try JSONSerialization.jsonObject(with: Data(payload)) as? [String: Any])
            #expect(object.values.contains { $0 as? String == values["a"] as? String })
            let result = try #require(object["x"] as? [Any])
            for (string, replaced) in zip(strings, result) where !string.contains("{{") {
                #expect(replaced as? String == string)
            }
        }
    }
}
