#include "talosctl/cluster/network/uplink.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/backoff.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/within.h"
#include "common/wire/rpc-server.h"
#include "talosctl/cluster/network/port-forwarder.h"

namespace talos::cluster {
namespace {

constexpr kj::StringPtr kSlirp = "/usr/bin/slirp4netns"_kj, kNft = "/usr/sbin/nft"_kj;
// Both take some 10 ms; but the kernel makes links and rules under one lock for all namespaces,
// which other processes may hold for long.
constexpr kj::Duration kStartDeadline = 20 * kj::SECONDS;
constexpr unsigned kMtu = 65520;           // largest MTU that slirp4netns handles well
constexpr size_t kMostOutput = 64u << 10;  // limit for the output of either tool

Ip numbered(const Prefix& network, kj::byte last) {
  kj::byte bytes[4];
  memcpy(bytes, network.address.bytes().begin(), sizeof bytes);
  bytes[3] = last;
  return KJ_ASSERT_NONNULL(Ip::fromBytes(kj::arrayPtr(bytes, sizeof bytes)));
}

kj::AutoCloseFd fileOf(kj::StringPtr text) {
  int raw;
  KJ_SYSCALL(raw = memfd_create("rules", MFD_CLOEXEC));
  kj::AutoCloseFd fd(raw);
  kj::FdOutputStream(fd.get()).write(text.begin(), text.size());
  KJ_SYSCALL(lseek(fd, 0, SEEK_SET));
  return fd;
}

struct Pipe {
  kj::AutoCloseFd reading, writing;
};
Pipe makePipe() {
  int ends[2];
  KJ_SYSCALL(pipe2(ends, O_CLOEXEC));
  return {kj::AutoCloseFd(ends[0]), kj::AutoCloseFd(ends[1])};
}

uint16_t portOf(int listening) {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  KJ_SYSCALL(getsockname(listening, reinterpret_cast<sockaddr*>(&name), &size));
  return KJ_ASSERT_NONNULL(Endpoint::of(name)).port;
}

// Sets the sysctl of the calling thread's network namespace: /proc/sys/net shows each thread its
// own.
void forwardPackets() {
  constexpr kj::StringPtr kFile = "/proc/sys/net/ipv4/ip_forward"_kj;
  kj::AutoCloseFd fd(open(kFile.cStr(), O_WRONLY | O_CLOEXEC));
  if (fd.get() < 0 || ::write(fd, "1", 1) != 1) {
    int error = errno;
    fail(ErrorKind::kFailedPrecondition,
         kj::str("cannot write ", kFile, " of the cluster's network: ", strerror(error),
                 "; or use --no-uplink"));
  }
}

kj::Vector<kj::String> toolFor(kj::StringPtr root, kj::StringPtr path, kj::StringPtr package) {
  kj::Maybe<kj::Vector<kj::String>> command;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { command = findTool(root, path); })) {
    fail(ErrorKind::kNotFound,
         kj::str(messageOf(*e),
                 ", which the way out of the cluster needs; run `make` in the "
                 "checkout, install the package ",
                 package, ", or use --no-uplink"));
  }
  return kj::mv(KJ_ASSERT_NONNULL(command));
}

}  // namespace

Prefix uplinkNetwork(const Prefix& nodes) {
  auto usual = KJ_ASSERT_NONNULL(Prefix::parse("198.18.0.0/24"));
  auto other = KJ_ASSERT_NONNULL(Prefix::parse("198.19.0.0/24"));
  if (!nodes.overlaps(usual)) return usual;
  if (!nodes.overlaps(other)) return other;
  fail(ErrorKind::kInvalidArgument,
       kj::str("--cidr: ", nodes.toString(),
               " leaves no network of 198.18.0.0/15 for the way out of the cluster; use another "
               "network, or --no-uplink"));
}

kj::String uplinkRules(const Prefix& nodes, const Ip& gateway, const Prefix& uplink,
                       uint16_t port) {
  auto resolver = numbered(uplink, 3);
  // A socket that listens in this namespace takes precedence over the host's.
  return kj::str(
      "table ip uplink {\n"
      "  chain in {\n"
      "    type nat hook prerouting priority dstnat\n"
      "    ip daddr ",
      gateway, " meta l4proto { tcp, udp } th dport 53 dnat to ", resolver,
      "\n"
      "    ip daddr ",
      gateway,
      " meta l4proto tcp socket wildcard 0 accept\n"
      "    ip daddr ",
      gateway,
      " meta l4proto tcp socket wildcard 1 accept\n"
      "    ip daddr ",
      gateway, " meta l4proto tcp redirect to :", port,
      "\n"
      "  }\n"
      "  chain out {\n"
      "    type nat hook postrouting priority srcnat\n"
      "    ip saddr ",
      nodes,
      " oifname \"up0\" masquerade\n"
      "  }\n"
      "}\n");
}

kj::String hostPortRules6(const Ip& gateway, uint16_t port) {
  return kj::str(
      "table ip6 uplink {\n"
      "  chain in {\n"
      "    type nat hook prerouting priority dstnat\n"
      "    ip6 daddr ",
      gateway,
      " meta l4proto tcp socket wildcard 0 accept\n"
      "    ip6 daddr ",
      gateway,
      " meta l4proto tcp socket wildcard 1 accept\n"
      "    ip6 daddr ",
      gateway, " meta l4proto tcp dnat to [", gateway, "]:", port,
      "\n"
      "  }\n"
      "}\n");
}

void checkUplinkTools(kj::StringPtr root) {
  toolFor(root, kSlirp, "slirp4netns");
  toolFor(root, kNft, "nftables");
}

Uplink::Uplink(kj::AsyncIoContext& io, const HostNetwork& host, Settings settings)
    : io(io), timer(io.provider->getTimer()), host(host), settings(kj::mv(settings)) {
  for (auto& gateway : this->settings.gateways) {
    if (gateway.address.family() == AF_INET) network = uplinkNetwork(gateway.masked());
  }
}

kj::Promise<void> Uplink::start() {
  KJ_REQUIRE(!host.isCurrent(),
             "the calling thread must be in the network namespace of the cluster");
  kj::Vector<kj::String> rules;
  for (auto& gateway : settings.gateways) rules.add(openPorts(gateway));
  co_await applyRules(kj::strArray(rules, ""));
  KJ_IF_MAYBE (uplink, network) {
    forwardPackets();
    co_await startSlirp(*uplink);
  }
}

// Starts the forwarding, and returns the rules that redirect connections to it.
kj::String Uplink::openPorts(const Prefix& gateway) {
  auto listening = listenTcp(gateway.address.toString(), 0);
  auto port = portOf(listening);
  ports.add(
      forwardToHost(*io.lowLevelProvider, timer, kj::mv(listening), host).eagerlyEvaluate(nullptr));
  if (gateway.address.family() == AF_INET6) return hostPortRules6(gateway.address, port);
  return uplinkRules(gateway.masked(), gateway.address, KJ_ASSERT_NONNULL(network), port);
}

kj::Promise<void> Uplink::applyRules(kj::String text) {
  auto command = toolFor(settings.root, kNft, "nftables");
  command.add(kj::str("-f"));
  command.add(kj::str("-"));
  auto rules = fileOf(text);
  auto errors = makePipe();
  ToolProcess nft(io.unixEventPort, command, {.input = rules, .errors = errors.writing});
  errors.writing = nullptr;
  auto output = io.lowLevelProvider->wrapInputFd(kj::mv(errors.reading));
  auto said =
      co_await within(timer, kStartDeadline, output->readAllText(kMostOutput),
                      kj::str("nft did not exit within ", kStartDeadline / kj::SECONDS, " s"));
  KJ_IF_MAYBE (how, co_await nft.onExit()) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("the kernel refused the rules of the cluster's way out: nft ", *how, ": ", said,
                 "; load the modules nft_nat, nft_redir, nft_masq and nft_socket, or use "
                 "--no-uplink"));
  }
}

kj::Promise<void> Uplink::startSlirp(const Prefix& uplink) {
  auto command = toolFor(settings.root, kSlirp, "slirp4netns");
  int raw;
  KJ_SYSCALL(raw = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  kj::AutoCloseFd own(raw);
  auto ready = makePipe(), lives = makePipe();
  for (auto& argument :
       {kj::str("--configure"), kj::str("--mtu=", kMtu), kj::str("--netns-type=path"),
        kj::str("--enable-sandbox"), kj::str("--enable-seccomp"),
        kj::str("--disable-host-loopback"), kj::str("--cidr=", uplink),
        kj::str("--ready-fd=", ready.writing.get()), kj::str("--exit-fd=", lives.reading.get()),
        kj::str("/proc/self/fd/", own.get()), kj::str("up0")}) {
    command.add(kj::str(argument));
  }
  int inherited[] = {ready.writing, lives.reading, own};
  auto started = kj::heap<ToolProcess>(
      io.unixEventPort, command,
      ToolSettings{.inherited = inherited, .network = host.fd(), .ownMounts = true});
  log::info("slirp4netns started", {{"pid", started->pid()}});
  ready.writing = nullptr;
  slirpLives = kj::mv(lives.writing);
  slirp = kj::mv(started);
  auto output = io.lowLevelProvider->wrapInputFd(kj::mv(ready.reading));
  auto text = co_await within(
      timer, kStartDeadline, output->readAllText(kMostOutput),
      kj::str("slirp4netns was not ready within ", kStartDeadline / kj::SECONDS, " s"));
  if (text != "1") {
    fail(ErrorKind::kUnavailable,
         "slirp4netns exited at once; see supervisor.log, or use --no-uplink");
  }
}

kj::Promise<void> Uplink::run() {
  KJ_IF_MAYBE (uplink, network) return keepSlirp(*uplink);
  return kj::NEVER_DONE;
}

kj::Promise<void> Uplink::keepSlirp(Prefix uplink) {
  Backoff backoff({.first = 100 * kj::MILLISECONDS, .longest = 30 * kj::SECONDS});
  for (;;) {
    KJ_IF_MAYBE (running, slirp) {
      auto began = timer.now();
      auto how = co_await (*running)->onExit();
      log::error("slirp4netns exited; restarting",
                 {{"error", how.orDefault(kj::str("exited with status 0"))}});
      slirp = nullptr;
      if (timer.now() - began > 1 * kj::MINUTES) backoff.reset();
    }
    co_await timer.afterDelay(backoff.next());
    try {
      co_await startSlirp(uplink);
    } catch (const kj::Exception& e) {
      log::error("cannot start slirp4netns; retrying", {{"error", messageOf(e)}});
      slirp = nullptr;
    }
  }
}

}  // namespace talos::cluster
