// System call filters, by name of the profile: allow-lists, except for programs that are not ours.
// A call that is not allowed fails with EPERM, so a library that tries something new falls back or
// reports it; a foreign architecture kills.
//
//   server    a KJ program with files and sockets of Unix and IP: apid
//   listener  a server that was started with its socket of IP, and makes none but those of Unix: it
//             neither binds nor listens, sends no data with a connect, and changes no files. Where
//             connect() goes is in memory, where no filter looks: with a socket that it has, which
//             it shuts down first, it could connect out. Landlock closes that
//             (--landlock-tcp=none): trustd
//   storage   the same with threads, for a disk that takes its time: etcd-supervisor
//   network   a server with netlink and packet sockets and interface ioctls: networkd
//   vip       a client of Unix and TCP that moves addresses: netlink of routes and of sockets,
//   packets
//             and ICMPv6 that it sends; it receives no packets, listens nowhere, changes no files:
//             vipd
//   parser    reads and writes the descriptors that it was started with, and nothing else: it can
//             neither make nor connect sockets, open files, nor send signals
//             (machined/confined/parser)
//   resolver  a parser that asks DNS servers: with sockets of IP, and files that Landlock names
//   prober    a parser that reads a disk by a descriptor, and asks it for its size; Landlock leaves
//   it
//             sysfs (machined/confined/parser/disk-probe.h)
//   volumes   files, block devices and the device mapper, with threads and without sockets:
//             machined/disk/luks
//   installer volumes with processes and detached mounts: machined/disk/installer, which enters a
//             ruleset of Landlock with each step
//   foreign   all that a server of IP may need, whoever wrote it: etcd. It has no sockets of Unix,
//             so none of the node's own ones, and of the rest only netlink besides IP
//   bus       the same, but with sockets of Unix and no others: dbus-daemon
//
// None may trace, change its identity, or the limits of another process; but for the installer none
// may start processes, mount or load modules, and execve is possible only with the very pointer
// that this wrapper passes, and once it is gone nothing lies there; Landlock closes the rest. New
// threads are possible for storage, volumes, foreign and bus: all other programs of ours have one.
#pragma once

#include <kj/string.h>

namespace talos::confine {

// Installs it on this thread, for good. `program` is the pointer that execve will be called with.
// InvalidArgument for an unknown profile, naming the known ones.
void installFilter(kj::StringPtr profile, const char* program);

// The filter of the brain and of all programs that it starts: it refuses what neither of them does,
// a part of what a foreign program is refused.
void installBrainFilter();

}  // namespace talos::confine
