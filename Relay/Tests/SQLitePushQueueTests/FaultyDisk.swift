import GRDBSQLite
import Synchronization

/// SQLite's access to files, with a disk whose `fsync` can fail.
///
/// It becomes SQLite's default for the files that are opened from then on, and passes every call on, except `fsync` for
/// the files that a test names.
enum FaultyDisk {
    private struct State {
        /// The paths of the open files by the addresses of SQLite's file objects.
        var paths: [UInt: String] = [:]
        /// SQLite's own functions, by the address of the table that replaces them.
        var methods: [UInt: UnsafePointer<sqlite3_io_methods>] = [:]
        var failing: Set<String> = []
    }

    /// SQLITE_IOERR_FSYNC
    private static let syncFailed: Int32 = 10 | 4 << 8

    private nonisolated(unsafe) static var system: UnsafeMutablePointer<sqlite3_vfs>?
    private static let state = Mutex(SendableBox(State()))

    /// Lets the next calls of `fsync` for the file fail, until ``repair(_:)``.
    static func failSync(of path: String) { self.state.withLock { _ = $0.value.failing.insert(path) } }

    static func repair(_ path: String) { self.state.withLock { _ = $0.value.failing.remove(path) } }

    /// Whether SQLite uses this disk.
    static let isInstalled: Bool = {
        guard let found = sqlite3_vfs_find(nil) else { return false }
        Self.system = found
        let disk = UnsafeMutablePointer<sqlite3_vfs>.allocate(capacity: 1)
        disk.initialize(to: found.pointee)
        let name = UnsafeMutablePointer<CChar>.allocate(capacity: 7)
        for (index, byte) in "faulty\0".utf8.enumerated() { name[index] = CChar(byte) }
        disk.pointee.zName = UnsafePointer(name)
        disk.pointee.xOpen = { _, name, file, flags, outFlags in
            guard let system = FaultyDisk.system, let file else { return SQLITE_CANTOPEN }
            let result = system.pointee.xOpen(system, name, file, flags, outFlags)
            if result == SQLITE_OK { FaultyDisk.didOpen(file, name.map { String(cString: $0) } ?? "") }
            return result
        }
        return sqlite3_vfs_register(disk, 1) == SQLITE_OK
    }()

    private static func didOpen(_ file: UnsafeMutablePointer<sqlite3_file>, _ path: String) {
        guard let methods = file.pointee.pMethods else { return }
        let address = UInt(bitPattern: file)
        let original = SendableBox(methods)
        let replacement = self.state.withLock { state -> SendableBox<UnsafePointer<sqlite3_io_methods>> in
            state.value.paths[address] = path
            if let known = state.value.methods.first(where: { $0.value == original.value })?.key,
                let pointer = UnsafePointer<sqlite3_io_methods>(bitPattern: known)
            {
                return SendableBox(pointer)
            }
            let made = UnsafeMutablePointer<sqlite3_io_methods>.allocate(capacity: 1)
            made.initialize(to: original.value.pointee)
            made.pointee.xSync = { file, flags in FaultyDisk.sync(file, flags) }
            state.value.methods[UInt(bitPattern: made)] = original.value
            return SendableBox(UnsafePointer(made))
        }
        file.pointee.pMethods = replacement.value
    }

    private static func sync(_ file: UnsafeMutablePointer<sqlite3_file>?, _ flags: Int32) -> Int32 {
        guard let file, let methods = file.pointee.pMethods else { return SQLITE_MISUSE }
        let (address, table) = (UInt(bitPattern: file), UInt(bitPattern: methods))
        let original = self.state.withLock { state -> SendableBox<UnsafePointer<sqlite3_io_methods>?> in
            let fails = state.value.failing.contains(state.value.paths[address] ?? "")
            return SendableBox(fails ? nil : state.value.methods[table])
        }
        guard let sync = original.value?.pointee.xSync else { return self.syncFailed }
        return sync(file, flags)
    }
}

/// SQLite's tables of functions are never changed or freed.
private struct SendableBox<Value>: @unchecked Sendable {
    var value: Value

    init(_ value: Value) {
        self.value = value
    }
}
