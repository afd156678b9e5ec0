// The installed etcd, with TLS both ways, as one process for each member; for tests.
//
// Members listen on loopback addresses derived from this process's number, so that concurrent tests
// never meet. The processes end with the object, and with the thread that created it.
#pragma once

#include <fcntl.h>
#include <kj/debug.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <string>
#include <vector>

#include "common/base/file.h"
#include "common/etcd/etcd-client.h"
#include "common/tls/pki.h"

namespace talos::etcd {

class RealEtcd {
 public:
  static constexpr const char* kProgram = "/usr/bin/etcd";
  static constexpr unsigned kMost = 4;
  static constexpr const char* kCtl = "/usr/bin/etcdctl";
  static bool installed() { return access(kProgram, X_OK) == 0 && access(kCtl, X_OK) == 0; }

  RealEtcd() {
    char pattern[] = "/tmp/etcd-test-XXXXXX";
    KJ_ASSERT(mkdtemp(pattern) != nullptr);
    root = kj::str(pattern);
    authority = pki::makeAuthority({.organization = "etcd"});
    auto made = issue();
    writeFileAtomically(at("ca.crt"), authority.certificate, 0644);
    writeFileAtomically(at("tls.crt"), made.certificate, 0644);
    writeFileAtomically(at("tls.key"), kj::StringPtr(pki::toPkcs8(made.key)), 0600);
  }
  ~RealEtcd() noexcept {
    while (!running.empty()) kill(running.begin()->first);
    if (asking != 0) ::kill(asking, SIGKILL), ::waitpid(asking, nullptr, 0);
    removeTree(root);
  }
  KJ_DISALLOW_COPY_AND_MOVE(RealEtcd);

  // Members are numbered from 1.
  static Ip address(unsigned n) {
    auto id = static_cast<unsigned>(getpid());
    kj::byte bytes[4] = {127, static_cast<kj::byte>(64 + (id >> 8) % 128),
                         static_cast<kj::byte>(id), static_cast<kj::byte>(n)};
    return KJ_ASSERT_NONNULL(Ip::fromBytes(bytes));
  }
  static Endpoint client(unsigned n) { return {address(n), 2379}; }
  static kj::String peerUrl(unsigned n) {
    return kj::str("https://", address(n).toString(), ":2380");
  }
  static kj::String clientUrl(unsigned n) {
    return kj::str("https://", address(n).toString(), ":2379");
  }
  static kj::String nameOf(unsigned n) { return kj::str("m", n); }

  Credentials credentials() const {
    auto made = issue();
    return {kj::str(authority.certificate), kj::mv(made.certificate), kj::mv(made.key)};
  }

  // `cluster`: the numbers of all members, including this one. `join`: the member was added to a
  // running cluster.
  void start(unsigned n, std::vector<unsigned> cluster, bool join = false) {
    KJ_REQUIRE(n >= 1 && n <= kMost && !running.contains(n));
    kj::Vector<kj::String> all;
    for (auto c : cluster) all.add(kj::str(nameOf(c), "=", peerUrl(c)));
    kj::Vector<kj::String> args;
    auto flag = [&](kj::StringPtr name, kj::StringPtr value) {
      args.add(kj::str("--", name, "=", value));
    };
    flag("name", nameOf(n));
    flag("data-dir", at(nameOf(n)));
    flag("listen-client-urls", clientUrl(n));
    flag("advertise-client-urls", clientUrl(n));
    flag("listen-peer-urls", peerUrl(n));
    flag("initial-advertise-peer-urls", peerUrl(n));
    flag("initial-cluster", kj::strArray(all, ","));
    flag("initial-cluster-state", join ? "existing" : "new");
    for (auto prefix : {"", "peer-"}) {
      flag(kj::str(prefix, "cert-file"), at("tls.crt"));
      flag(kj::str(prefix, "key-file"), at("tls.key"));
      flag(kj::str(prefix, "trusted-ca-file"), at("ca.crt"));
      flag(kj::str(prefix, "client-cert-auth"), "true");
    }
    flag("log-level", "error");
    flag("unsafe-no-fsync", "true");
    running[n] = spawn(kProgram, args, at(kj::str(nameOf(n), ".log")));
  }
  // Calls the first member with etcd's client, etcdctl.
  void ctl(std::vector<std::string> words) {
    kj::Vector<kj::String> args;
    args.add(kj::str("--endpoints=", clientUrl(1)));
    args.add(kj::str("--cacert=", at("ca.crt")));
    args.add(kj::str("--cert=", at("tls.crt")));
    args.add(kj::str("--key=", at("tls.key")));
    for (auto& w : words) args.add(kj::str(w.c_str()));
    KJ_REQUIRE(asking == 0, "one at a time");
    asking = spawn(kCtl, args, at("ctl.log"));
  }
  // Waits until etcdctl has exited.
  void finishCtl() {
    int status;
    KJ_SYSCALL(::waitpid(asking, &status, 0));
    asking = 0;
    KJ_ASSERT(status == 0, readFile(at("ctl.log")));
  }
  // Kills the process, as when a node loses power.
  void kill(unsigned n) { signal(n, SIGKILL); }
  void signal(unsigned n, int number) {
    auto pid = running.at(n);
    ::kill(pid, number);
    if (number == SIGSTOP) {  // some of its threads run for a moment longer
      siginfo_t stopped = {};
      KJ_SYSCALL(::waitid(P_PID, static_cast<id_t>(pid), &stopped, WSTOPPED | WNOWAIT));
    }
    if (number != SIGKILL) return;
    running.erase(n);
    ::waitpid(pid, nullptr, 0);
  }
  std::string log(unsigned n) const {
    auto text = readFile(at(kj::str(nameOf(n), ".log")));
    return std::string(text.begin(), text.size());
  }

  kj::String at(kj::StringPtr name) const { return kj::str(root, '/', name); }

 private:
  kj::String root;
  pki::CertificateAndKey authority;
  std::map<unsigned, pid_t> running;
  pid_t asking = 0;

  pki::CertificateAndKey issue() const {
    kj::Vector<kj::String> addresses;
    // A member refuses a peer whose address is not in its certificate; connections over loopback
    // come from this address.
    addresses.add(kj::str("127.0.0.1"));
    for (unsigned n = 1; n <= kMost; ++n) addresses.add(address(n).toString());
    return pki::issue(authority.certificate, authority.key,
                      {.commonName = "node", .addresses = addresses.releaseAsArray()});
  }

  static pid_t spawn(const char* program, kj::ArrayPtr<const kj::String> args, kj::StringPtr log) {
    std::vector<char*> argv = {const_cast<char*>(program)};
    for (auto& a : args) argv.push_back(const_cast<char*>(a.cStr()));
    argv.push_back(nullptr);
    int out;
    KJ_SYSCALL(out = open(log.cStr(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    kj::AutoCloseFd owned(out);
    pid_t pid;
    KJ_SYSCALL(pid = fork());
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      dup2(out, 1);
      dup2(out, 2);
      execv(program, argv.data());
      _exit(127);
    }
    return pid;
  }
};

}  // namespace talos::etcd
