// Package local starts private Redis and Postgres servers on this machine, for `holdfast dev` and for
// tests.
//
// A server started here is nobody else's: it has its own folder, reads no configuration file of the
// system, and listens on 127.0.0.1 alone, on a free port that is never the default one. There is no
// password, so whoever has an account on this machine can connect; keep nothing secret in it.
//
// # It ends with us
//
// On Linux the kernel sends a server its stop signal when this process ends, also after kill -9
// (PR_SET_PDEATHSIG). Elsewhere a small shell waits for our end and sends it. Servers are in a process
// group of their own, so a Ctrl-C at the terminal reaches us alone, and we stop them when we are done with them.
//
// # The state folder
//
// One Redis and one Postgres may share a folder. It holds, for each, NAME.log (and NAME.log.1, of the start
// before), NAME.lock and the folder NAME with the server's data. The lock is held by the server
// and all of its children, so a folder is free exactly when the last of them is gone.
//
// # Sets of Redis
//
// StartSentinel starts a master with replicas and three Sentinels, StartRedisCluster a cluster of three masters. Each node is
// a server like any other: Kill, Pause, Resume and Restart are its own. Nodes keep the role that they were given last in a
// file of theirs, as in production. The link among the nodes of a cluster is on the port 10,000 below a node's.
//
// # As root
//
// Postgres refuses to run as root and Redis should not, so under root they run as the owner of their
// data folder; a new one is given to the user postgres or redis, if there is one, else to nobody. That user must be able
// to reach the folder. If a parent is closed to it (a checkout below a 0700 home folder), the
// data goes to a new folder below /var/lib/holdfast-dev (or /var/tmp/holdfast-dev), and the file LOCATION in the
// folder that was asked for says where: removing that file, or its folder, starts afresh. Dir tells which folder is in use.
package local
