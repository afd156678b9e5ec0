// The names of a provider's services, in a network that only the test uses, for a machine that
// calls them by name.
//
// From then on the host is a network and mount namespace of this process, with only its loopback; a
// machine of QEMU's user network resolves names by a dnsmasq there, which knows only these names.
#pragma once

#include <gtest/gtest.h>
#include <kj/debug.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "tests/harness/process.h"

namespace talos::vm {

class NamedServices {
 public:
  // `address` is in the machine's network.
  NamedServices(const std::vector<std::string>& names, const std::string& address) {
    KJ_SYSCALL(unshare(CLONE_NEWNET | CLONE_NEWNS), "needs root");
    auto up = harness::run({"ip", "link", "set", "lo", "up"});
    KJ_REQUIRE(up.status == 0, up.err.c_str());
    int fd;
    KJ_SYSCALL(fd = mkstemp(resolvers.data()));
    close(fd);
    std::ofstream(resolvers) << "nameserver 127.0.0.1\n";
    KJ_SYSCALL(mount(resolvers.c_str(), kResolvers, nullptr, MS_BIND, nullptr));
    std::vector<std::string> command = {"/usr/sbin/dnsmasq",
                                        "--keep-in-foreground",
                                        "--conf-file=/dev/null",
                                        "--no-resolv",
                                        "--no-hosts",
                                        "--pid-file",
                                        "--user=root",
                                        "--group=root",
                                        "--listen-address=127.0.0.1",
                                        "--bind-interfaces",
                                        "--log-facility=/dev/null"};
    for (auto& name : names) command.push_back("--host-record=" + name + "," + address);
    server.emplace(command);
    auto listens = [] { return harness::contains(harness::slurp("/proc/net/udp"), ":0035 "); };
    KJ_REQUIRE(harness::eventually(listens, 60), server->err().c_str());
  }
  ~NamedServices() {
    umount2(kResolvers, MNT_DETACH);
    unlink(resolvers.c_str());
  }
  NamedServices(const NamedServices&) = delete;

 private:
  static constexpr const char* kResolvers = "/etc/resolv.conf";
  std::string resolvers = "/tmp/talos-resolvers-XXXXXX";
  std::optional<harness::Background> server;
};

}  // namespace talos::vm
