#include "manifestd/extra-manifests.h"

#include <gtest/gtest.h>

#include "common/base/error.h"
#include "common/tls/pki.h"
#include "rpc/etcd-resources.capnp.h"
#include "rpc/secret-resources.capnp.h"
#include "tests/models/test-machined.h"

namespace talos::manifestd {
namespace {

class ExtraManifestsTest : public testing::Test {
 protected:
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  // Timer for retries, which happen only when a test advances it.
  kj::TimerImpl pauses{kj::origin<kj::TimePoint>()};
  ModelMachined machined{io, kManifestdUid};
  ModelKind& configs = machined.kind<rpc::ControlPlaneConfigSpec>();
  ModelKind& extras = machined.kind<rpc::ManifestSpec>("extras");
  ModelKind& own = machined.kind<rpc::ManifestSpec>();
  ModelKind& statuses = machined.kind<rpc::ManifestStatusSpec>("extras");
  StoreClient store{*io.lowLevelProvider, timer, machined.socket(), kj::str(kOwner)};
  kj::Function<double()> random = [] { return 0.0; };
  unsigned bundles = 0;  // counts reads of the CAs
  ExtraManifests manifests{{.timer = pauses, .random = random, .store = store},
                           {*io.lowLevelProvider, io.unixEventPort, timer},
                           [this] {
                             ++bundles;
                             return pki::makeAuthority({}).certificate;
                           }};
  kj::Promise<void> running = nullptr;

  ~ExtraManifestsTest() noexcept override { running = nullptr; }

  struct Entry {
    kj::StringPtr url;
    kj::Maybe<kj::StringPtr> contents;
  };
  // Publishes the entries as machined does.
  void want(std::initializer_list<Entry> entries) {
    configs.set<rpc::ControlPlaneConfigSpec>("extra-manifests", "machined", [&](auto spec) {
      auto list = spec.initExtraManifests().initExtraManifests(entries.size());
      unsigned next = 0;
      for (auto& entry : entries) {
        auto manifest = list[next++];
        manifest.setPriority("99");
        manifest.setUrl(entry.url);
        KJ_IF_MAYBE (contents, entry.contents) manifest.setContents(*contents);
      }
    });
  }
  // Writes a record of an earlier process.
  void stored(kj::StringPtr id, kj::StringPtr objects) {
    extras.set<rpc::ManifestSpec>(id, kOwner, [&](auto spec) { spec.setObjects(objects); });
  }
  void run() {
    machined.start();
    running =
        manifests.run().eagerlyEvaluate([](kj::Exception&& e) { FAIL() << messageOf(e).cStr(); });
  }
  // Waits for these records; fails the test with the actual records.
  void await(kj::StringPtr expected) {
    until([&] { return there() == expected; });
    EXPECT_EQ(there(), expected) << manifests.problem().cStr();
  }
  template <typename F>
  void until(F&& done) {
    auto deadline = timer.now() + 20 * kj::SECONDS;
    while (!done() && timer.now() < deadline) {
      timer.afterDelay(1 * kj::MILLISECONDS).wait(io.waitScope);
    }
  }
  kj::String there() {
    kj::Vector<kj::String> parts;
    for (auto resource : extras.all()) {
      ResourceOf<rpc::ManifestSpec> one(resource);
      parts.add(kj::str(one.id(), "@", one.version(), "=", one.getObjects()));
    }
    return kj::strArray(parts, "|");
  }
};

// Catches: downloaded manifests among machined's rendered ones; an empty inline manifest that is
// taken for a URL.
TEST_F(ExtraManifestsTest, AreInANamespaceOfTheirOwn) {
  want({{"one", "a: 1\n"_kj}, {"two", ""_kj}});
  run();
  await("99-one@1=- a: 1\n|99-two@1=[]\n");
  EXPECT_EQ(manifests.problem(), ""_kj);
  EXPECT_EQ(own.puts, 0u);
  EXPECT_EQ(statuses.size(), 0u);
}

// Catches: a process that parses servers' answers and could request a key of the cluster from
// machined.
TEST_F(ExtraManifestsTest, ReadsNoKeys) {
  run();
  until([&] { return extras.watching > 0 && configs.watching > 0; });  // connected
  auto refused = [&](kj::Promise<void> sent) {
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { sent.wait(io.waitScope); })) {
      return kj::str(nameOf(kindOf(*e)));
    }
    return kj::str("allowed");
  };
  EXPECT_EQ(refused(store.visit<rpc::KubernetesSecretsSpec>([](auto) {})), "PermissionDenied");
  EXPECT_EQ(refused(store.visit<rpc::EtcdSecretsSpec>([](auto) {})), "PermissionDenied");
  EXPECT_EQ(refused(store.visit<rpc::KubeletSecretsSpec>([](auto) {})), "PermissionDenied");
  EXPECT_EQ(refused(store.visit<rpc::RootSecretSpec>([](auto) {})), "PermissionDenied");
  // It may not read or write machined's rendered manifests or kubed's reports either.
  EXPECT_EQ(refused(store.visit<rpc::ManifestSpec>([](auto) {})), "PermissionDenied");
  auto write = [&](kj::StringPtr ns) {
    StoreClient::Wanted wanted;
    auto record = kj::heap<capnp::MallocMessageBuilder>();
    record->initRoot<rpc::ManifestStatusSpec>().setMessage("a");
    wanted.insert(kj::str("manifests"), kj::mv(record));
    return refused(store.replaceAll<rpc::ManifestStatusSpec>(kj::mv(wanted), ns));
  };
  EXPECT_EQ(write(""), "PermissionDenied");
  EXPECT_EQ(write("extras"), "allowed");
}

// Catches: a restarted process that removes its fetched manifests before it has the config.
TEST_F(ExtraManifestsTest, WhatWasFetchedBeforeStays) {
  stored("99-http://127.0.0.1:1/m.yaml", "old");
  stored("99-gone", "old");
  auto paf = kj::newPromiseAndFulfiller<void>();
  auto late = paf.promise.fork();
  configs.beforeWatch = [&] { return late.addBranch(); };
  want({{"http://127.0.0.1:1/m.yaml", nullptr}});
  run();
  until([&] { return extras.watching > 0 && configs.watching > 0; });
  // A round trip after the entries.
  store.replaceAll<rpc::ManifestStatusSpec>({}, "extras").wait(io.waitScope);
  EXPECT_EQ(extras.destroys, 0u);
  paf.fulfiller->fulfill();
  await("99-http://127.0.0.1:1/m.yaml@1=old");
  EXPECT_EQ(extras.destroys, 1u);
  until([&] { return manifests.problem().size() > 0; });
  EXPECT_TRUE(
      manifests.problem().startsWith("cannot read the manifest http://127.0.0.1:1/m.yaml: "))
      << manifests.problem().cStr();
}

// Catches: a manifest that cannot be stored and is shown as applied, or never retried.
TEST_F(ExtraManifestsTest, AManifestThatCannotBeStoredIsReportedAndRetried) {
  extras.tooLarge = {"99-one"};
  want({{"one", "a: 1\n"_kj}, {"two", "b: 2\n"_kj}});
  run();
  await("99-two@1=- b: 2\n");
  until([&] { return manifests.problem().size() > 0; });
  EXPECT_EQ(manifests.problem(), "cannot store the manifests: no room"_kj);
  until([&] { return statuses.size() == 1; });
  for (auto one : statuses.all()) {
    EXPECT_EQ(ResourceOf<rpc::ManifestStatusSpec>(one).getMessage(), manifests.problem());
  }
  extras.tooLarge.clear();
  until([&] {
    pauses.advanceTo(pauses.now() + 2 * kj::MINUTES);
    return manifests.problem().size() == 0;
  });
  EXPECT_EQ(there(), "99-one@1=- a: 1\n|99-two@1=- b: 2\n"_kj);
  until([&] { return statuses.size() == 0; });
  EXPECT_EQ(statuses.size(), 0u);
}

// Catches: an error that stays because the process that reported it has ended.
TEST_F(ExtraManifestsTest, TheErrorOfAnEarlierProcessIsReplaced) {
  statuses.set<rpc::ManifestStatusSpec>("manifests", kOwner,
                                        [](auto spec) { spec.setMessage("cannot read one"); });
  want({{"one", "a: 1\n"_kj}});
  run();
  await("99-one@1=- a: 1\n");
  until([&] { return statuses.size() == 0; });
  EXPECT_EQ(statuses.size(), 0u);
}

// Catches: a corrected config that waits for the pause of the wrong one; a token that is shown.
TEST_F(ExtraManifestsTest, ACorrectedConfigDoesNotWait) {
  want({{"https://a/m?token=secret&checksum=md5:1", nullptr}});
  run();
  until([&] { return manifests.problem().size() > 0; });
  EXPECT_EQ(manifests.problem(),
            "cannot read the manifest https://a/m: \"https://a/m\" has no valid checksum; use "
            "checksum=sha256:<64 digits of hex>"_kj);
  want({{"one", "a: 1\n"_kj}});
  await("99-one@1=- a: 1\n");
  until([&] { return manifests.problem().size() == 0; });
  EXPECT_EQ(manifests.problem(), ""_kj);
}

// Catches: the system's CAs read again for each request.
TEST_F(ExtraManifestsTest, TheAuthoritiesAreReadOnce) {
  auto listener =
      io.provider->getNetwork().parseAddress("127.0.0.1", 0).wait(io.waitScope)->listen();
  unsigned accepted = 0;
  auto hangUp = [&]() -> kj::Promise<void> {
    for (;;) {
      co_await listener->accept().ignoreResult();
      ++accepted;
    }
  };
  auto hangingUp = hangUp().eagerlyEvaluate(nullptr);
  auto one = kj::str("https://127.0.0.1:", listener->getPort(), "/a"),
       two = kj::str("https://127.0.0.1:", listener->getPort(), "/b");
  want({{one, nullptr}, {two, nullptr}});
  run();
  until([&] { return manifests.problem().size() > 0; });
  EXPECT_EQ(accepted, 2u);
  EXPECT_EQ(bundles, 1u);
}

}  // namespace
}  // namespace talos::manifestd
