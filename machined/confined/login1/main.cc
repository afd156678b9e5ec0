// login1: signals a coming shutdown to programs that hold a lock, and waits for them. Wiring only:
// inhibitors.h has the rules for locks, shutdown-delay.h the time limit, login-manager.h the D-Bus
// interface. It is a separate program, as kubed and parse are: the brain reads no D-Bus, and only
// this program links the C++ library for it.
//
// machined announces a shutdown in ShutdownRequests[node]; ShutdownDelays[node] has the holders for
// which the shutdown waits, Inhibitors the locks. The environment has machined's socket, the
// address of the bus (common/base/node-layout.h), and the two sockets with the locks of the
// previous login1 (kept-locks.h). Needs no capability and writes no file.
#include "common/base/date.h"
#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "common/base/log.h"
#include "common/base/node-layout.h"
#include "common/crash/crash-handler.h"
#include "common/memory/process-memory.h"
#include "common/wire/rpc-server.h"
#include "common/wire/store-client.h"
#include "machined/confined/login1/login-manager.h"
#include "rpc/machine-resources.capnp.h"

namespace talos::login1 {

constexpr kj::StringPtr kNodeId = "node"_kj, kBusVariable = "DBUS_SYSTEM_BUS_ADDRESS"_kj;
constexpr auto kReportRetry = 1 * kj::SECONDS;

kj::Promise<void> writeState(StoreClient& store, const ShutdownDelay& delay) {
  StoreClient::Wanted locks, answers;
  for (auto& entry : delay.inhibitors()) {
    auto record = kj::heap<capnp::MallocMessageBuilder>();
    auto spec = record->initRoot<rpc::InhibitorSpec>();
    auto& lock = entry.value;
    spec.setWho(lock.who);
    spec.setWhat(lock.what);
    spec.setWhy(lock.why);
    spec.setMode(lock.mode);
    spec.setUid(lock.uid);
    spec.setPid(lock.pid);
    spec.setSince(dateText(lock.since));
    locks.insert(kj::str(entry.key), kj::mv(record));
  }
  auto record = kj::heap<capnp::MallocMessageBuilder>();
  auto spec = record->initRoot<rpc::ShutdownDelaySpec>();
  spec.setState(delay.stateName());
  spec.setMessage(delay.message());
  spec.setNumber(delay.requested());
  auto holders = delay.inhibitors().holders();
  fillTexts(spec.initWaitsFor(holders.size()), holders);
  answers.insert(kj::str(kNodeId), kj::mv(record));
  co_await store.replaceAll<rpc::InhibitorSpec>(kj::mv(locks));
  co_await store.replaceAll<rpc::ShutdownDelaySpec>(kj::mv(answers));
}

kj::Promise<void> writeStateOnChanges(kj::Timer& timer, StoreClient& store,
                                      const ShutdownDelay& delay, Signal& changed) {
  for (;;) {
    co_await changed.wait();
    co_await writeState(store, delay).catch_([&](kj::Exception&& e) -> kj::Promise<void> {
      log::warn("cannot write the state of the shutdown delay; retrying",
                {{"error", messageOf(e)}});
      return timer.afterDelay(kReportRetry).then([&changed] { changed.raise(); });
    });
  }
}

void run() {
  refuseCoreDumps();
  auto io = kj::setupAsyncIo();
  auto& timer = io.provider->getTimer();
  Signal changed;
  kj::Maybe<LoginManager&> listening;
  ShutdownDelay delay(
      timer,
      [&](bool begins) {
        log::info(begins ? "announced a shutdown" : "withdrew a shutdown");
        KJ_IF_MAYBE (bus, listening) bus->prepareForShutdown(begins);
      },
      [&] { changed.raise(); });
  auto address = kj::str("unix:path=", kBusSocket);
  KeptLocks kept(inheritedSocket(kKeepingVariable), inheritedSocket(kKeptVariable));
  LoginManager manager(io.unixEventPort, timer, kj::systemPreciseCalendarClock(),
                       fromEnvironment(kBusVariable, address), delay, kept);
  listening = manager;
  StoreClient store(*io.lowLevelProvider, timer, machinedSocket(), kj::str("login1"));
  Watched<rpc::ShutdownRequestSpec> requests;
  requests = store.watch<rpc::ShutdownRequestSpec>(
      [&] {
        KJ_IF_MAYBE (found, requests.find(kNodeId)) {
          delay.request(found->getNumber(), found->getLimit() * kj::SECONDS);
        } else {
          delay.request(0);
        }
      },
      kNodeId);
  changed.raise();  // the store still has the state that an earlier process wrote
  releaseStartMemory();
  auto settled = releaseStartMemoryLater(timer).eagerlyEvaluate(nullptr);
  log::info("listening");
  manager.run().exclusiveJoin(writeStateOnChanges(timer, store, delay, changed)).wait(io.waitScope);
}

}  // namespace talos::login1

int main(int, char**) {
  talos::crash::reportCrashes("login1");
  auto failure = kj::runCatchingExceptions([] { talos::login1::run(); });
  KJ_IF_MAYBE (e, failure) {
    talos::log::error("exiting", {{"error", talos::messageOf(*e)}});
  }
  return 1;  // it exits only on a failure; its supervisor restarts it
}
