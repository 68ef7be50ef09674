/// The versions of this library and of the compiler that built it.
enum LibraryVersion {
    static let library = "0.1.0"

    static var swift: String {
        #if compiler(>=6.4)
            "6.4 or later"
        #elseif compiler(>=6.3)
            "6.3"
        #else
            "6.2"
        #endif
    }

    static var build: String {
        #if DEBUG
            "debug"
        #else
            "release"
        #endif
    }
}
