// System call filters, by name of the profile: allow-lists, except for programs that are not ours.
// A call that is not allowed fails with EPERM, so a library that tries something new falls back or
// reports it; a call of a foreign architecture kills the process.
//
//   server    a KJ program with files and with Unix and IP sockets: apid
//   listener  a server that is started with its IP socket, and makes Unix sockets only: it neither
//             binds nor listens, sends no data with a connect, and changes no files. The address
//             for connect() is in memory, where no filter looks: the server could shut down its
//             socket and connect out with it. Landlock prevents this (--landlock-tcp=none): trustd
//   storage   the same with threads, for a slow disk: etcd-supervisor
//   network   a server with netlink and packet sockets and interface ioctls: networkd
//   vip       a client of Unix, TCP and UDP that moves addresses: netlink of routes and of sockets,
//             and packets and ICMPv6 that it sends; it receives no packets, listens nowhere,
//             changes no files: vipd
//   parser    reads and writes the descriptors that it was started with, and nothing else: it can
//             neither make nor connect sockets, open files, nor send signals
//             (machined/confined/parser)
//   resolver  a parser that queries DNS servers: with IP sockets, and the files that Landlock names
//   prober    a parser that reads a disk by a descriptor, and gets the disk's size; Landlock leaves
//             it sysfs (machined/confined/parser/disk-probe.h)
//   volumes   files, block devices and the device mapper, with threads and without sockets:
//             machined/disk/luks
//   installer volumes with processes and detached mounts: machined/disk/installer, which enters a
//             ruleset of Landlock with each step
//   foreign   all that a foreign IP server may need: etcd. It has no Unix sockets, so it cannot
//             reach the node's own, and besides IP only netlink
//   bus       the same, but with Unix sockets only: dbus-daemon
//   modules   a kernel helper (machined/confined/kernel-helper), which forks for each request
//   raw-io    the other kernel helper, for raw commands to disks
//
// No profile allows tracing, a change of identity, or changing the limits of another process. Only
// the installer may start programs and mount, and only modules may load modules. But for the
// installer, execve is possible only with the very pointer that this wrapper passes, and after
// execve nothing lies there; Landlock closes the rest. A parser that drops its rights itself has no
// execve. New threads are possible for storage,
// volumes, foreign and bus: all other programs of ours have one thread.
#pragma once

#include <kj/string.h>

namespace talos::confine {

// Installs the filter on this thread, for good. `program`: the pointer that execve will be called
// with; nullptr: no program is started. InvalidArgument for an unknown profile, naming the known
// ones.
void installFilter(kj::StringPtr profile, const char* program);

// Installs the filter of the brain and of all programs that it starts: it refuses calls that
// neither makes, a part of those that a foreign program is refused.
void installBrainFilter();

}  // namespace talos::confine
