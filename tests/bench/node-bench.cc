// Figures of a node that another process boots, by its client configuration:
//
//   node-bench first TALOSCONFIG
//       waits for the first answered version call over mutual TLS and prints
//       {"answered":…,"date":…,"uptime":…,"attempts":N}: seconds on this machine's boot clock (as
//       in /proc/<pid>/stat), since 1970, and of the node's /proc/uptime carried back to that
//       moment
//   node-bench calls TALOSCONFIG N
//       so many version calls through apid, one after the other, on one connection; prints
//       {"calls":N,"p50us":…,"p99us":…}
//   node-bench applies TALOSCONFIG N
//       the same with changes of the machine config that take effect at once
//   node-bench away TALOSCONFIG
//       asks 20 times a second, on one connection for as long as it lasts, in which boot the node
//       is, until it is in another one; prints {"away":SECONDS,"asked":N,"failed":N}: from the last
//       answer of the one to the first of the other
//
// link: talosctl-commands
#include <kj/async-io.h>
#include <kj/debug.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/error.h"
#include "common/base/node-layout.h"
#include "common/base/resource.h"
#include "common/talosconfig/talosconfig.h"
#include "common/wire/rpc-server.h"
#include "common/wire/test-connect.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/node.capnp.h"
#include "tests/bench/arguments.h"

namespace talos {
namespace {

constexpr auto kTimeout = 10 * kj::MINUTES;  // emulated machines on a busy host
constexpr auto kAttempt = 20 * kj::SECONDS;
constexpr auto kConnect = 2 * kj::SECONDS;   // less than TCP waits before it asks again
constexpr auto kProbe = 5 * kj::SECONDS;     // a node that is off answers nothing at all
constexpr auto kUpgrade = 30 * kj::MINUTES;  // the same, with an image that it fetches and writes

double secondsOf(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec + now.tv_nsec / 1e9;
}

double bootSeconds() {
  return secondsOf(CLOCK_BOOTTIME);
}

class Text final : public rpc::ByteSink::Server {
 public:
  explicit Text(kj::Vector<char>& text) : text(text) {}

 protected:
  kj::Promise<void> write(WriteContext context) override {
    text.addAll(context.getParams().getBytes().asChars());
    return kj::READY_NOW;
  }

 private:
  kj::Vector<char>& text;
};

class ApiConnection {
 public:
  ApiConnection(kj::AsyncIoContext& io, kj::StringPtr path)
      : io(io),
        config(Talosconfig::load(path)),
        context(config.resolve()),
        tls(context.credentials()) {
    KJ_REQUIRE(context.endpoints.size() > 0, path);
  }

  rpc::Node::Client node(kj::Duration deadline = kAttempt) {
    auto& timer = io.provider->getTimer();
    connection = connectTls(*io.lowLevelProvider, timer, tls, context.endpoints[0], kApidPort,
                            context.endpoints[0], deadline)
                     .wait(io.waitScope);
    auto& c = *KJ_ASSERT_NONNULL(connection);
    return c.bootstrap().castAs<rpc::Cluster>().nodeRequest().send().getNode();
  }
  void version(rpc::Node::Client& node) {
    auto call = node.machineRequest().send().getMachine().versionRequest().send();
    io.provider->getTimer().timeoutAfter(kAttempt, call.ignoreResult()).wait(io.waitScope);
  }
  kj::String machineConfig(rpc::Node::Client& node) {
    auto request = node.sensitiveResourcesRequest().send().getResources().getRequest();
    request.initKind().setType(typeName<rpc::MachineConfigSpec>());
    request.setId("v1alpha1");
    auto answer = request.send().wait(io.waitScope);
    auto spec = answer.getResource().getSpec().getAs<rpc::MachineConfigSpec>();
    return kj::heapString(spec.getDocument());
  }
  void apply(rpc::Node::Client& node, kj::StringPtr document) {
    auto request = node.configurationRequest().send().getConfiguration().applyRequest();
    auto asked = request.initRequest();
    asked.setDocument(document.asBytes());
    asked.setMode(rpc::ApplyMode::NO_REBOOT);
    io.provider->getTimer()
        .timeoutAfter(kAttempt, request.send().ignoreResult())
        .wait(io.waitScope);
  }
  double uptime(rpc::Node::Client& node) {
    return strtod(read(node, "/proc/uptime", kAttempt).cStr(), nullptr);
  }
  kj::String bootId(rpc::Node::Client& node) {
    return read(node, "/proc/sys/kernel/random/boot_id", kProbe);
  }
  kj::String read(rpc::Node::Client& node, kj::StringPtr path, kj::Duration deadline) {
    kj::Vector<char> text;
    auto request = node.filesRequest().send().getFiles().readRequest();
    request.setPath(path);
    request.setSink(kj::heap<Text>(text));
    io.provider->getTimer()
        .timeoutAfter(deadline, request.send().ignoreResult())
        .wait(io.waitScope);
    return kj::heapString(text);
  }

 private:
  kj::AsyncIoContext& io;
  Talosconfig config;
  const Context& context;
  TlsEndpoint tls;
  kj::Maybe<kj::Own<Connection>> connection;
};

// Starts to connect when its input ends, so that the start of the client is not measured.
void first(kj::AsyncIoContext& io, kj::StringPtr path) {
  ApiConnection connection(io, path);
  for (char ignored[64]; read(STDIN_FILENO, ignored, sizeof ignored) > 0;) continue;
  auto& timer = io.provider->getTimer();
  auto until = timer.now() + kTimeout;
  for (unsigned attempts = 1;; ++attempts) {
    // Uses one connection at a time: it waits in the node's queue until apid runs, and until then
    // costs the node nothing.
    auto failure = kj::runCatchingExceptions([&] {
      auto node = connection.node();
      connection.version(node);
      auto answered = bootSeconds(), date = secondsOf(CLOCK_REALTIME);
      auto before = bootSeconds();
      auto uptime = connection.uptime(node);
      auto after = bootSeconds();
      printf("{\"answered\":%.3f,\"date\":%.6f,\"uptime\":%.3f,\"attempts\":%u}\n", answered, date,
             uptime - ((before + after) / 2 - answered), attempts);
    });
    if (failure == nullptr) return;
    KJ_IF_MAYBE (e, failure) {
      KJ_REQUIRE(timer.now() < until, "the node did not answer within 10 minutes", messageOf(*e));
    }
    timer.afterDelay(5 * kj::MILLISECONDS).wait(io.waitScope);
  }
}

void away(kj::AsyncIoContext& io, kj::StringPtr path) {
  auto& timer = io.provider->getTimer();
  auto until = timer.now() + kUpgrade;
  kj::String before;
  double last = 0;
  unsigned asked = 0, failed = 0;
  while (true) {
    auto failure = kj::runCatchingExceptions([&] {
      ApiConnection connection(io, path);
      auto node = connection.node(kConnect);
      for (auto next = timer.now();; next += 50 * kj::MILLISECONDS) {
        timer.atTime(next).wait(io.waitScope);
        ++asked;
        auto now = connection.bootId(node);
        if (before.size() == 0) before = kj::str(now);
        if (now != before) return;
        last = bootSeconds();
        KJ_REQUIRE(timer.now() < until, "the node did not reboot");
      }
    });
    if (failure == nullptr) break;
    ++failed;
    KJ_IF_MAYBE (e, failure) {
      KJ_REQUIRE(timer.now() < until && last > 0, "the node does not answer", messageOf(*e));
    }
    timer.afterDelay(50 * kj::MILLISECONDS).wait(io.waitScope);
  }
  printf("{\"away\":%.2f,\"asked\":%u,\"failed\":%u}\n", bootSeconds() - last, asked, failed);
}

void time(unsigned count, kj::FunctionParam<void(unsigned)> once) {
  kj::Vector<double> took;
  for (unsigned i = 0; i < count; ++i) {
    auto began = bootSeconds();
    once(i);
    took.add((bootSeconds() - began) * 1e6);
  }
  std::sort(took.begin(), took.end());
  printf("{\"calls\":%u,\"p50us\":%.0f,\"p99us\":%.0f}\n", count, took[count / 2],
         took[count * 99 / 100]);
}

void calls(kj::AsyncIoContext& io, kj::StringPtr path, unsigned count) {
  ApiConnection connection(io, path);
  auto node = connection.node();
  time(count, [&](unsigned) { connection.version(node); });
}

void applies(kj::AsyncIoContext& io, kj::StringPtr path, unsigned count) {
  constexpr kj::StringPtr kKey = "clusterName: "_kj;
  ApiConnection connection(io, path);
  auto node = connection.node();
  auto document = connection.machineConfig(node);
  auto text = strstr(document.cStr(), kKey.cStr());
  KJ_REQUIRE(text != nullptr, "the node's config names no cluster");
  auto behind = text + kKey.size();
  auto other = kj::str(document.slice(0, behind - document.begin()), "an", behind);
  kj::StringPtr documents[] = {document, other};
  time(count, [&](unsigned i) { connection.apply(node, documents[(i + 1) % 2]); });
}

}  // namespace
}  // namespace talos

int main(int argc, char** argv) {
  auto usage = "first|away TALOSCONFIG | calls|applies TALOSCONFIG [COUNT]"_kj;
  return talos::bench::runMain(argc, argv, "node-bench", usage, [](auto& arguments) {
    auto what = arguments.text(1);
    bool once = what == "first" || what == "away";
    arguments.expect(2, once ? 2 : 3);
    if (!once && what != "calls" && what != "applies") {
      arguments.refuse(kj::str('"', what, "\" is nothing that is measured"));
    }
    auto count = arguments.numberOr(10'000, 3, "COUNT", 1, 100'000'000);
    auto io = kj::setupAsyncIo();
    if (once) {
      (what == "first" ? talos::first : talos::away)(io, arguments.text(2));
    } else {
      (what == "calls" ? talos::calls : talos::applies)(io, arguments.text(2), count);
    }
  });
}
