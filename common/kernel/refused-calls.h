// Limits of a foreign program, which may make all other system calls: the filter of a process
// (machined/confined/sandbox) and of a container (machined/services/containers) are built from
// them, so a program has the same limits in either form.
#pragma once

#include <stdint.h>
#include <sys/socket.h>

namespace talos {

// Without capabilities, which such a program does not have, most of these calls would fail as well;
// the others are means to attack a kernel.
constexpr const char* kRefusedCalls[] = {
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "kcmp",
    "pidfd_getfd",
    "fork",
    "vfork",
    "execveat",
    "mount",
    "umount2",
    "move_mount",
    "open_tree",
    "fsopen",
    "fsconfig",
    "fsmount",
    "fspick",
    "mount_setattr",
    "pivot_root",
    "chroot",
    "unshare",
    "setns",
    "bpf",
    "perf_event_open",
    "userfaultfd",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "keyctl",
    "add_key",
    "request_key",
    "kexec_load",
    "kexec_file_load",
    "init_module",
    "finit_module",
    "delete_module",
    "reboot",
    "swapon",
    "swapoff",
    "settimeofday",
    "clock_settime",
    "clock_adjtime",
    "adjtimex",
    "sethostname",
    "setdomainname",
    "iopl",
    "ioperm",
    "acct",
    "vhangup",
    "syslog",
    "quotactl",
    "quotactl_fd",
    "fanotify_init",
    "fanotify_mark",
    "name_to_handle_at",
    "open_by_handle_at",
    "modify_ldt",
    "personality",
    "mknod",
    "mknodat",
};

// Socket families of a server of IP that lists the addresses of the node. It has no Unix sockets,
// so none of the node's.
constexpr uint64_t kForeignFamilies[] = {AF_INET, AF_INET6, AF_NETLINK};

}  // namespace talos
