enum APIDescription {
    static let text = "{}"
}
