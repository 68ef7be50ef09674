/// Something that a test needs is not there.
package struct RelayTestFailure: Error, CustomStringConvertible {
    package var description: String

    package init(_ description: String) {
        self.description = description
    }
}
