// An etcd for the checks of etcd-table-test.cc. Each check must hold for the real etcd and for its
// model, or the model is wrong.
#pragma once

#include <kj/async-io.h>

#include <functional>

#include "common/base/within.h"
#include "common/etcd/test-etcd.h"
#include "common/etcd/test-real-etcd.h"

namespace talos::etcd {

// Time limit of a check's waits: far more than they take.
constexpr auto kTimeout = 60 * kj::SECONDS;
// The checks are about answers, not about time; a test machine may be slow.
constexpr Deadlines kSlow = {kTimeout / 3, kTimeout / 3, kTimeout, kTimeout / 3};

class EtcdFixture {
 public:
  virtual ~EtcdFixture() noexcept(false) = default;
  virtual Etcd& member(unsigned n) = 0;  // from 1; the first member always exists
  virtual kj::WaitScope& scope() = 0;
  virtual kj::Timer& timer() = 0;
  // Starts an added member as the n-th. `all`: the numbers of all members, including this one.
  virtual void join(unsigned n, const Member& added, std::vector<unsigned> all) = 0;
  virtual void kill(unsigned n) = 0;
  virtual void compact(Revision at) = 0;
  // Returns true if etcd's client waits for a mutex now; finishEtcdctl() waits until the client has
  // locked and released it.
  virtual bool lockByEtcdctl(const char* prefix) = 0;
  virtual void finishEtcdctl() = 0;
  // Waits for a promise while time passes.
  virtual void finish(kj::Promise<void> promise) = 0;

  template <typename T>
  T wait(kj::Promise<T> promise) {
    kj::Maybe<T> result;
    finish(promise.then([&](T&& value) { result = kj::mv(value); }));
    return kj::mv(KJ_ASSERT_NONNULL(result));
  }
  void wait(kj::Promise<void> promise) { finish(kj::mv(promise)); }
  // Returns "Kind: message" of a promise that rejects.
  template <typename T>
  std::string failure(kj::Promise<T> promise) {
    std::string result = "none";
    finish(promise.then([](auto&&...) {},
                        [&](kj::Exception&& e) {
                          result = kj::str(talos::nameOf(kindOf(e)), ": ", messageOf(e)).cStr();
                        }));
    return result;
  }
  // Repeats the call until this kind of refusal has passed.
  void eventually(ErrorKind passing, std::function<kj::Promise<void>()> ask) {
    auto until = timer().now() + kTimeout;
    for (;;) {
      kj::Maybe<kj::Exception> wrong;
      finish(ask().catch_([&](kj::Exception&& e) { wrong = kj::mv(e); }));
      KJ_IF_MAYBE (e, wrong) {
        KJ_ASSERT(kindOf(*e) == passing && timer().now() < until, *e);
        finish(timer().afterDelay(20 * kj::MILLISECONDS));
      } else {
        return;
      }
    }
  }
};

class ModelEtcdFixture final : public EtcdFixture {
 public:
  Etcd& member(unsigned n) override {
    auto& client = clients[n];
    if (client.get() == nullptr) client = kj::heap<ModelEtcd>(cluster, ids.at(n));
    return *client;
  }
  kj::WaitScope& scope() override { return waitScope; }
  kj::Timer& timer() override { return virtualTimer; }
  void join(unsigned n, const Member& added, std::vector<unsigned>) override {
    cluster.start(added.id, RealEtcd::nameOf(n), RealEtcd::clientUrl(n));
    ids[n] = added.id;
  }
  void kill(unsigned n) override { cluster.kill(ids.at(n)); }
  void compact(Revision at) override { cluster.store.compact(at); }
  bool lockByEtcdctl(const char*) override { return false; }
  void finishEtcdctl() override {}
  void finish(kj::Promise<void> promise) override {
    auto until = virtualTimer.now() + kTimeout;
    while (!promise.poll(waitScope)) {
      auto next = virtualTimer.nextEvent().orDefault(until);
      KJ_ASSERT(next < until, "nothing came of it in time");
      virtualTimer.advanceTo(next);
    }
    promise.wait(waitScope);
  }

 private:
  kj::EventLoop loop;
  kj::WaitScope waitScope{loop};
  kj::TimerImpl virtualTimer{kj::origin<kj::TimePoint>()};
  ModelCluster cluster{virtualTimer, RealEtcd::nameOf(1), RealEtcd::peerUrl(1),
                       RealEtcd::clientUrl(1)};
  std::map<unsigned, MemberId> ids = {{1, cluster.leader}};
  std::map<unsigned, kj::Own<ModelEtcd>> clients;
};

class RealEtcdFixture final : public EtcdFixture {
 public:
  explicit RealEtcdFixture(RealEtcd& real) : real(real), credentials(real.credentials()) {}

  Etcd& member(unsigned n) override {
    auto& client = clients[n];
    if (client.get() == nullptr) {
      client = kj::heap<EtcdClient>(*io.lowLevelProvider, timer(), credentials, RealEtcd::client(n),
                                    kSlow);
    }
    return *client;
  }
  kj::WaitScope& scope() override { return io.waitScope; }
  kj::Timer& timer() override { return io.provider->getTimer(); }
  void join(unsigned n, const Member&, std::vector<unsigned> all) override {
    real.start(n, all, true);
    ready(n);
  }
  void kill(unsigned n) override { real.kill(n); }
  void compact(Revision at) override {
    real.ctl({"compact", std::to_string(at)});
    real.finishCtl();
  }
  bool lockByEtcdctl(const char* prefix) override {
    real.ctl({"lock", prefix, "true"});
    return true;
  }
  void finishEtcdctl() override { real.finishCtl(); }
  void finish(kj::Promise<void> promise) override {
    within(timer(), kTimeout, kj::mv(promise), kj::str("nothing came of it in time")).wait(scope());
  }
  // Retries until the member's port is open.
  void ready(unsigned n) {
    auto until = timer().now() + kTimeout;
    for (;;) {
      kj::Maybe<kj::Exception> wrong;
      auto status =
          member(n).status().then([](Status&&) {}, [&](kj::Exception&& e) { wrong = kj::mv(e); });
      status.wait(scope());
      KJ_IF_MAYBE (e, wrong) {
        KJ_ASSERT(timer().now() < until, *e, real.log(n).c_str());
        timer().afterDelay(10 * kj::MILLISECONDS).wait(scope());
      } else {
        return;
      }
    }
  }

  kj::AsyncIoContext io = kj::setupAsyncIo();
  RealEtcd& real;
  TlsEndpoint credentials;

 private:
  std::map<unsigned, kj::Own<EtcdClient>> clients;
};

}  // namespace talos::etcd
