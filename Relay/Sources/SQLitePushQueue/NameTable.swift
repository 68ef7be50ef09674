import APNSModel
import GRDB
import PushQueue

/// A cache of the ids of routes and callers in the tables.
struct NameTable: Sendable {
    private var routeIDs: [Route: Int64] = [:]
    private var routes: [Int64: Route] = [:]
    private var callerIDs: [String: Int64] = [:]
    private var callers: [Int64: String] = [:]

    /// The route's id; nil if the route has never had a push.
    mutating func id(of route: Route, in db: Database) throws -> Int64? {
        if let id = self.routeIDs[route] { return id }
        let sql = try db.prepared(
            """
            SELECT route.id FROM caller JOIN route ON route.caller = caller.id
            WHERE app = ? AND environment = ? AND lane = ? AND batch = ? AND name = ?
            """
        )
        Self.bind(route, to: sql)
        sql.bind(5, route.caller)
        guard let id = try sql.first({ $0.int64(0) }) else { return nil }
        self.routeIDs[route] = id
        self.routes[id] = route
        return id
    }

    mutating func idAddingIfNeeded(of route: Route, in db: Database) throws -> Int64 {
        if let id = try self.id(of: route, in: db) { return id }
        let caller = try self.idAddingIfNeeded(ofCaller: route.caller, in: db)
        let sql = try db.prepared("INSERT INTO route (app, environment, lane, batch, caller) VALUES (?, ?, ?, ?, ?)")
        Self.bind(route, to: sql)
        sql.bind(5, caller)
        try sql.run()
        let id = db.lastInsertedRowID
        self.routeIDs[route] = id
        self.routes[id] = route
        return id
    }

    mutating func forget(_ route: Route) {
        guard let id = self.routeIDs.removeValue(forKey: route) else { return }
        self.routes[id] = nil
    }

    mutating func idAddingIfNeeded(ofCaller name: String, in db: Database) throws -> Int64 {
        if let id = self.callerIDs[name] { return id }
        let select = try db.prepared("SELECT id FROM caller WHERE name = ?")
        select.bind(1, name)
        var id = try select.first { $0.int64(0) }
        if id == nil {
            let insert = try db.prepared("INSERT INTO caller (name) VALUES (?)")
            insert.bind(1, name)
            try insert.run()
            id = db.lastInsertedRowID
        }
        self.callerIDs[name] = id
        return id ?? db.lastInsertedRowID
    }

    mutating func route(_ id: Int64, in db: Database) throws -> Route {
        if let route = self.routes[id] { return route }
        let sql = try db.prepared(
            """
            SELECT app, environment, lane, name, batch FROM route JOIN caller ON caller.id = route.caller
            WHERE route.id = ?
            """
        )
        sql.bind(1, id)
        let route = try sql.first {
            Route(
                app: $0.text(0),
                environment: $0.text(1),
                lane: $0.int64(2) == 0 ? .interactive : .bulk,
                caller: $0.text(3),
                batch: $0.id(4)
            )
        }
        guard let route else {
            throw DatabaseError(resultCode: .SQLITE_CORRUPT, message: "route \(id) is missing")
        }
        self.routes[id] = route
        self.routeIDs[route] = id
        return route
    }

    mutating func caller(_ id: Int64, in db: Database) throws -> String {
        if let caller = self.callers[id] { return caller }
        let sql = try db.prepared("SELECT name FROM caller WHERE id = ?")
        sql.bind(1, id)
        guard let caller = try sql.first({ $0.text(0) }) else {
            throw DatabaseError(resultCode: .SQLITE_CORRUPT, message: "caller \(id) is missing")
        }
        self.callers[id] = caller
        return caller
    }

    private static func bind(_ route: Route, to sql: PreparedSQL) {
        sql.bind(1, route.app)
        sql.bind(2, route.environment)
        sql.bind(3, route.lane == .interactive ? 0 : 1)
        if let batch = route.batch { sql.bind(4, batch) } else { sql.bind(4, [UInt8]()) }
    }
}
