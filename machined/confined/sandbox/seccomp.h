// System call filters, by name of the profile: allow-lists, but for the one for programs that are
// not ours. What is not allowed fails with EPERM, so a library that tries something new falls back
// or says so; a foreign architecture kills.
//
//   server    a KJ program with files and sockets of Unix and IP: apid, trustd
//   network   the same with netlink and packet sockets and interface ioctls: networkd, vipd
//   parser    reads and writes what it was started with, and nothing else:
//   machined/confined/parser. It can
//             neither make nor connect sockets, open files, nor send signals
//   resolver  a parser that asks DNS servers: with sockets of IP, and files that Landlock names
//   volumes   files, block devices and the device mapper, with threads and without sockets:
//             machined/disk/luks
//   foreign   whatever a server of IP may need, whoever wrote it: etcd. It has no sockets of Unix,
//             so none of the node's own doors, and of the rest only netlink besides IP
//   bus       the same, but with sockets of Unix and no others: dbus-daemon
//
// None may start processes, trace, mount, load modules or change its identity. execve is possible
// only with the very pointer that this wrapper passes, once it is gone nothing lies there; Landlock
// closes the rest. New threads are possible for the last three only: all others of ours have one.
#pragma once

#include <kj/string.h>

namespace talos::confine {

// Installs it on this thread, for good. `program` is the pointer that execve will be called with.
// InvalidArgument for an unknown profile, naming the known ones.
void installFilter(kj::StringPtr profile, const char* program);

}  // namespace talos::confine
