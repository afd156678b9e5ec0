// The limits of a program that is not ours and may make all other system calls: the filter of a
// process (machined/confined/sandbox) and that of a container (machined/services/containers) are
// made of them, so a program has the same ones in either form.
#pragma once

#include <stdint.h>
#include <sys/socket.h>

namespace talos {

// Without capabilities, which such a program has not got, most of these calls would fail as well;
// the rest is how kernels are attacked.
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

// A server of IP, which lists the addresses of the node. It has no sockets of Unix, hence none of
// the node's own ones.
constexpr uint64_t kForeignFamilies[] = {AF_INET, AF_INET6, AF_NETLINK};

}  // namespace talos
