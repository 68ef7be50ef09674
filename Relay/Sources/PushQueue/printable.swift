/// A text from a request in a form for messages: at most 40 characters, with dots instead of control characters.
package func printable(_ text: String) -> String {
    var result = ""
    for scalar in text.unicodeScalars.prefix(40) {
        let isPrintable = scalar.value >= 0x20 && scalar.value != 0x7F
        result.unicodeScalars.append(isPrintable ? scalar : ".")
    }
    return result
}
