// The config of a boot, and a machine that finds no config.
#include "machined/config/test-config-manager.h"

namespace talos::machined {
namespace {

// Catches: a wrong order of sources, and a copy that is used although it should not be.
TEST_F(ConfigManagerTest, BootReadsItsSourcesInOrder) {
  sources.answers.add(kj::str(document("source")));
  // The config's warnings are printed at every boot.
  std::string odd = document("kept").cStr();
  disk.content = kj::str(odd.replace(odd.find("https"), 5, "http").c_str());
  start();
  load();
  EXPECT_EQ("kept", running());
  EXPECT_EQ(0u, sources.searches);
  EXPECT_TRUE(brain().saidThat("is served over https only"));

  machine.drop();
  disk.content = kj::str(document("kept", "", false));
  start();
  load();
  EXPECT_EQ("source", running());
  brain().manager.save().wait(io.waitScope);
  EXPECT_EQ("source", onDisk());

  sources.answers.clear();
  sources.answers.add(kj::str("!gone"));
  disk.content = kj::str(document("staged"));
  start();
  load();  // the brain crashed: its config runs
  EXPECT_EQ("source", running());
}

// Catches: a machine that has no config after an upgrade, because the checks have become stricter.
TEST_F(ConfigManagerTest, WhatEarlierReleasesTookIsUsed) {
  auto tunnel =
      "    interfaces:\n      - interface: wg0\n        wireguard:\n          privateKey: x\n"
      "          peers: [{publicKey: y, allowedIPs: [10.0.0.1]}]\n";
  disk.content = kj::str(document("Bad_Name", tunnel), "---\n", document("another"));
  auto runs = [&]() {
    auto record = brain().store.tryGet<rpc::MachineConfigSpec>(kMachineConfigId);
    KJ_IF_MAYBE (r, record) return r->getDocument() == KJ_ASSERT_NONNULL(disk.content);
    return false;
  };
  start();
  load();
  EXPECT_TRUE(runs());
  for (auto part : {"network.hostname: \"Bad_Name\" is not a host name", "wireguard.privateKey",
                    "publicKey", "allowedIPs[0]", "another machine config"})
    EXPECT_TRUE(brain().saidThat(part)) << part;
  start();  // the brain crashed: the running config is read again
  EXPECT_TRUE(runs());
  EXPECT_FALSE(brain().saidThat("privateKey"));
}

// Catches: an apply with the rules of kept configs, which accepts a name that only earlier releases
// accepted; a refusal that ends the config that acts, or replaces its copy.
TEST_F(ConfigManagerTest, ANewConfigHasTheRulesOfNewConfigs) {
  auto kept = document("Bad_Name");
  disk.content = kj::str(kept);
  auto acts = [&](ModelBrain& b) {
    KJ_IF_MAYBE (r, b.store.tryGet<rpc::MachineConfigSpec>(kMachineConfigId)) {
      return r->getDocument() == kept && KJ_ASSERT_NONNULL(disk.content) == kept;
    }
    return false;
  };
  auto& b = start();
  load();
  ASSERT_TRUE(acts(b));
  for (bool dryRun : {true, false}) {
    for (auto mode : {ApplyMode::AUTO, ApplyMode::NO_REBOOT, ApplyMode::REBOOT, ApplyMode::STAGED,
                      ApplyMode::TRY}) {
      auto text = refusal(apply(document("Other_Name"), mode, dryRun));
      EXPECT_TRUE(contains(text, "InvalidArgument: machine config:")) << text;
      EXPECT_TRUE(contains(text, "network.hostname: \"Other_Name\" is not a host name")) << text;
      EXPECT_TRUE(acts(b)) << nameOf(mode).cStr();
    }
  }
  EXPECT_TRUE(acts(start())) << "after a crash of the brain";
}

// Catches: a configured machine whose copy is damaged or cannot be read, and which takes another
// config instead: from a source, or in maintenance mode from anybody.
TEST_F(ConfigManagerTest, ACopyThatCannotBeUsedEndsTheBoot) {
  for (auto& source : {document("source"), kj::str()}) {
    sources.answers.clear();
    sources.answers.add(kj::str(source));
    for (auto& damaged :
         {kj::str("machine: [\n"), kj::str(), document("kept", "  bogus: 1\n"), kj::str("!EIO")}) {
      SCOPED_TRACE(damaged.cStr());
      machine.drop();
      disk.unreadable = damaged == "!EIO";
      disk.content = kj::str(damaged);
      auto loading = start().manager.load();
      kj::String text;
      if (loading.poll(io.waitScope)) text = kj::str(refused(kj::mv(loading)));
      EXPECT_TRUE(contains(text.cStr(), "FailedPrecondition: config.yaml")) << text.cStr();
      EXPECT_TRUE(contains(text.cStr(), disk.unreadable ? "Input/output error" : "config.yaml:"))
          << text.cStr();
      EXPECT_FALSE(brain().manager.inMaintenance());
      EXPECT_EQ("-", running());
    }
  }
  EXPECT_EQ(0u, sources.searches);
}

// Catches: a configured machine with a non-persistent config on its disk that takes a config from
// anybody because its source is down.
TEST_F(ConfigManagerTest, ACopyThatIsNotKeptIsNoMaintenance) {
  disk.content = kj::str(document("kept", "", false));
  sources.answers.add(kj::str("!down"));
  auto loading = start().manager.load();
  ASSERT_TRUE(loading.poll(io.waitScope));
  auto text = refused(kj::mv(loading));
  EXPECT_TRUE(contains(text, "config.yaml has persist: false")) << text;
  EXPECT_TRUE(contains(text, "no machine config: down")) << text;
  EXPECT_FALSE(brain().manager.inMaintenance());
}

// Catches: a machine whose config is on a locked encrypted disk and that takes a config from
// anybody because its source is down; a machine that does not take the source's config, which has
// the keys.
TEST_F(ConfigManagerTest, ADiskThatIsLockedIsNoMaintenance) {
  disk.lockedBecause = kj::str("STATE: /dev/vda5 is encrypted");
  sources.answers.add(kj::str("!down"));
  auto loading = start().manager.load();
  ASSERT_TRUE(loading.poll(io.waitScope));
  auto text = refused(kj::mv(loading));
  EXPECT_TRUE(contains(text, "STATE: /dev/vda5 is encrypted")) << text;
  EXPECT_TRUE(contains(text, "no machine config: down")) << text;
  EXPECT_FALSE(brain().manager.inMaintenance());

  machine.drop();
  sources.answers.clear();
  sources.answers.add(kj::str(document("source")));
  start();
  load();
  EXPECT_EQ("source", running());
}

// Catches: a machine whose boot ends because its key server is started later, or that is taken for
// a new machine meanwhile; a source that is not searched for the keys; a stored config that is not
// used when the disk is open.
TEST_F(ConfigManagerTest, ADiskThatAServerOpensIsWaitedFor) {
  disk.lockedBecause = kj::str("STATE is encrypted, and its key server has not opened it");
  auto opened = kj::newPromiseAndFulfiller<void>();
  disk.opening = kj::mv(opened.promise);
  sources.answers.add(kj::str("!down"));
  auto loading = start().manager.load();
  EXPECT_FALSE(loading.poll(io.waitScope));
  EXPECT_EQ(1u, sources.searches);
  EXPECT_FALSE(brain().manager.inMaintenance());
  disk.lockedBecause = nullptr;
  disk.content = kj::str(document("kept"));
  opened.fulfiller->fulfill();
  loading.wait(io.waitScope);
  EXPECT_EQ("kept", running());
}

// Catches: a source's config that serves only for its keys and replaces the stored config, for this
// boot or on the disk; a stored config that cannot be read and is overwritten unread.
TEST_F(ConfigManagerTest, WhatWasLockedCountsWhenItIsOpen) {
  struct Row {
    kj::String kept;  // "-": no config
    const char *running, *onDisk;
  };
  Row rows[] = {
      {document("kept"), "kept", "kept"},      {document("kept", "", false), "source", "source"},
      {kj::str("-"), "source", "source"},      {document("source"), "source", "source"},
      {kj::str("machine: [\n"), "", "broken"}, {kj::str("!EIO"), "", "broken"}};
  sources.answers.add(kj::str(document("source")));
  for (auto& row : rows) {
    for (bool crash : {false, true}) {
      SCOPED_TRACE(row.kept.cStr());
      anotherMachine();
      disk.unreadable = false;
      disk.lockedBecause = kj::str("STATE: /dev/vda5 is encrypted");
      start();
      load();
      EXPECT_EQ("source", running());
      if (crash) start();
      disk.lockedBecause = nullptr;
      if (row.kept != "-") disk.content = kj::str(row.kept);
      disk.unreadable = row.kept == "!EIO";
      auto failure = refused(brain().manager.preferKept());
      bool good = row.running[0] != 0;
      EXPECT_EQ(good, failure == "nothing was refused") << failure;
      if (good) {
        EXPECT_EQ(row.running, running());
        brain().manager.save().wait(io.waitScope);
      } else {
        EXPECT_TRUE(contains(failure, "FailedPrecondition: config.yaml")) << failure;
      }
      EXPECT_EQ(row.onDisk, onDisk());
    }
  }
}

// Catches: a brain that finds a machine with a failed boot, and with the certificate for showing
// its state to anybody, and treats it as a machine in maintenance.
TEST_F(ConfigManagerTest, AMachineThatFailedIsNotInMaintenance) {
  sources.answers.add(kj::str());
  auto loading = waitForAConfig();
  putRecord<rpc::ApiCertificateSpec>(
      brain().store, "api",
      [&](rpc::ApiCertificateSpec::Builder spec) { spec.setMaintenance(true); });
  brain().failed = true;
  EXPECT_FALSE(brain().manager.inMaintenance());
  auto text =
      refusal(apply(document("b"), ApplyMode::AUTO, false, ConfigManager::Caller::kVisitor));
  EXPECT_TRUE(contains(text, "Unauthenticated: the boot of this node failed")) << text;
  EXPECT_EQ("-/-", state());
  EXPECT_TRUE(brain().manager.showsStateToAnybody()) << "a machine without a config may say why";
  loading = kj::NEVER_DONE;
  startsFailed = true;
  EXPECT_FALSE(start().manager.inMaintenance());
  EXPECT_EQ(0u, brain().changes) << "it began, and nobody was let in";
}

// Catches: a machine with an owner that shows its state to anybody after a failed boot.
TEST_F(ConfigManagerTest, AFailedMachineWithAConfigTellsNobody) {
  auto& b = booted(document("a"));
  EXPECT_FALSE(b.manager.showsStateToAnybody());
  b.failed = true;
  EXPECT_FALSE(b.manager.showsStateToAnybody());
}

// Catches: a machine that waits without saying why, and a machine that no apply can reach any more.
TEST_F(ConfigManagerTest, WithoutASourceItWaitsForAnApply) {
  sources.answers.add(kj::str());
  auto loading = waitForAConfig();
  auto& b = brain();
  ASSERT_EQ(1u, b.manager.maintenanceReasons().size());
  EXPECT_EQ("no machine config: http://source/ has no user data",
            b.manager.maintenanceReasons()[0]);
  EXPECT_EQ(1u, b.changes);
  pass(10 * kj::MINUTES);
  EXPECT_EQ(1u, sources.searches);            // there is no source to query
  b.runningSequence = kj::str("initialize");  // the sequence that has the task loadConfig

  auto visitor = ConfigManager::Caller::kVisitor;
  auto text = refusal(apply(document("b"), ApplyMode::STAGED, false, visitor));
  EXPECT_TRUE(contains(text, "FailedPrecondition: a node in maintenance mode")) << text;
  text = refusal(apply("machine: {}\n", ApplyMode::REBOOT, false, visitor));
  EXPECT_TRUE(contains(text, "InvalidArgument")) << text;
  EXPECT_TRUE(b.manager.inMaintenance());
  auto outcome = apply(document("b"), ApplyMode::REBOOT, true, visitor).wait(io.waitScope);
  EXPECT_EQ(ApplyMode::NO_REBOOT, outcome.mode);
  EXPECT_EQ("-/-", state());

  apply(document("b"), ApplyMode::REBOOT, false, visitor).wait(io.waitScope);
  ASSERT_TRUE(loading.poll(io.waitScope));
  EXPECT_FALSE(b.manager.inMaintenance());
  EXPECT_EQ("b/b", state());
  EXPECT_EQ(0u, b.reboots);
  EXPECT_EQ(2u, b.changes);
}

// Catches: a warning that the config is lost with the next boot, although the node installs itself
// with it; a missing warning on a node where it is lost.
TEST_F(ConfigManagerTest, WhatMetalGetsInMaintenanceIsInstalled) {
  disk.volatileBecause = kj::str("it is memory");
  for (auto each : {config::Mode::kMetal, config::Mode::kCloud}) {
    mode = each;
    sources.answers.clear();
    sources.answers.add(kj::str());
    auto loading = waitForAConfig();
    auto text = document("b", "  install: {disk: /dev/sda}\n");
    auto outcome = apply(text, ApplyMode::AUTO, true).wait(io.waitScope);
    bool warned = false;
    for (auto& line : outcome.warnings) warned = warned || contains(line.cStr(), "it is memory");
    EXPECT_EQ(each == config::Mode::kCloud, warned);
  }
}

// Catches: a file that the image lacks, found by the boot after the reboot; a node whose config has
// such a file already, and that therefore refuses every other change; a machine that refuses the
// config of the image that it is about to install.
TEST_F(ConfigManagerTest, FilesThatTheImageLacksAreRefused) {
  auto files = "  files: [{path: /etc/x.conf, op: overwrite, content: a}]\n"_kj;
  booted(document("a")).lacks = {"/etc/x.conf"};
  for (bool dryRun : {true, false}) {
    for (auto mode : {ApplyMode::AUTO, ApplyMode::REBOOT, ApplyMode::STAGED}) {
      EXPECT_EQ(
          "InvalidArgument: machine config: machine.files[0].path: /etc/x.conf: no such file in "
          "the system; use a path below /var, or an image that has the file",
          refusal(apply(document("b", files), mode, dryRun)));
    }
  }
  EXPECT_EQ("a/a", state());

  anotherMachine();
  booted(document("a", files)).lacks = {"/etc/x.conf"};
  auto outcome = apply(document("b", files), ApplyMode::NO_REBOOT).wait(io.waitScope);
  ASSERT_EQ(1u, outcome.warnings.size());
  EXPECT_EQ(
      "machine.files[0].path: /etc/x.conf: no such file in the system; a boot of this system "
      "leaves the file out",
      outcome.warnings[0]);
  EXPECT_EQ("b/b", state());

  // Two machines in maintenance: the second one installs an image that may have the file.
  for (bool installs : {false, true}) {
    anotherMachine();
    mode = config::Mode::kMetal;
    sources.answers.clear();
    sources.answers.add(kj::str());
    auto loading = waitForAConfig();
    brain().lacks = {"/etc/x.conf"};
    auto install = installs ? "  install: {disk: /dev/sda, image: 'example.com/own:v1'}\n"_kj
                            : "  install: {disk: /dev/sda}\n"_kj;
    auto text = document("b", kj::str(files, install));
    auto applying = apply(text, ApplyMode::AUTO, true);
    if (!installs) {
      EXPECT_TRUE(contains(refusal(kj::mv(applying)), "no such file in the system"));
      continue;
    }
    bool warned = false;
    for (auto& line : applying.wait(io.waitScope).warnings) {
      warned = warned || contains(line.cStr(), "a boot of this system leaves the file out");
    }
    EXPECT_TRUE(warned);
  }
}

// Catches: a program that the image lacks and that only the kubelet misses; a config that has it
// already and that therefore refuses every other change.
TEST_F(ConfigManagerTest, ProgramsThatTheImageLacksAreRefused) {
  auto wanted =
      "  kubelet:\n    credentialProviderConfig:\n      providers:\n"
      "        - {name: p, matchImages: [a.example], defaultCacheDuration: 12h}\n"_kj;
  booted(document("a")).lacks = {"p"};
  EXPECT_EQ(
      "InvalidArgument: machine config: machine.kubelet.credentialProviderConfig.providers[0]."
      "name: this system has no such program; remove it, or upgrade to an image that has the "
      "program",
      refusal(apply(document("b", wanted), ApplyMode::NO_REBOOT)));
  EXPECT_EQ("a/a", state());

  anotherMachine();
  booted(document("a", wanted)).lacks = {"p"};
  auto outcome = apply(document("b", wanted), ApplyMode::NO_REBOOT).wait(io.waitScope);
  ASSERT_EQ(1u, outcome.warnings.size());
  EXPECT_TRUE(contains(outcome.warnings[0].cStr(), "the kubelet of this system does not start"));
  EXPECT_EQ("b/b", state());
}

// Catches: a mistake in talos.platform= that bricks a machine with a config, or is reported
// nowhere; a new machine that accepts a config without its platform, in this brain or the next.
TEST_F(ConfigManagerTest, AnUnknownPlatform) {
  constexpr auto kProblem = "talos.platform=hcoud is not a platform; use one of metal, hcloud";
  sources.wrongPlatform = kj::str(kProblem);
  sources.answers.add(kj::str(document("source")));
  disk.content = kj::str(document("kept"));
  start();
  load();
  EXPECT_EQ("kept", running());
  EXPECT_TRUE(brain().saidThat(kProblem));

  // These machines' config is in the source.
  for (bool locked : {false, true}) {
    anotherMachine();
    disk.lockedBecause = locked ? kj::Maybe<kj::String>(kj::str("locked")) : nullptr;
    if (!locked) disk.content = kj::str(document("kept", "", false));
    start();
    load();
    EXPECT_EQ("source", running());
    EXPECT_TRUE(brain().saidThat(kProblem));
  }

  disk.lockedBecause = nullptr;
  anotherMachine();
  auto searches = sources.searches;
  auto loading = waitForAConfig();
  auto reason = [&] { return kj::str(brain().manager.maintenanceReasons()[0]); };
  EXPECT_EQ(kj::str("no machine config: ", kProblem), reason());
  putRecord<rpc::ApiCertificateSpec>(
      brain().store, "api",
      [&](rpc::ApiCertificateSpec::Builder spec) { spec.setMaintenance(true); });
  loading = kj::NEVER_DONE;
  auto& second = start();
  loading = second.manager.load();
  pass(10 * kj::MINUTES);
  EXPECT_EQ(kj::str("no machine config: ", kProblem), reason());
  EXPECT_EQ(searches, sources.searches);
  apply(document("b"), ApplyMode::REBOOT, false, ConfigManager::Caller::kVisitor)
      .wait(io.waitScope);
  EXPECT_EQ("b/b", state());
}

// Catches: a call without a certificate that a machine with a config accepts. Tried at every
// moment: while a document arrives from the source, beside another visitor's document, and
// afterwards.
TEST_F(ConfigManagerTest, AVisitorIsRefusedFromTheMomentOfTheConfig) {
  auto visitor = ConfigManager::Caller::kVisitor;
  sources.answers.add(kj::str("!nothing yet"));
  sources.answers.add(kj::str(document("source")));
  auto loading = waitForAConfig();
  // The visitor's document is so large that a parser checks it while the other one arrives.
  auto large = kj::str(document("visitor"), "# ", kj::repeat('x', 200'000), "\n");
  kj::Promise<ConfigManager::Outcome> beside = nullptr;
  {
    HeldReaders held(brain().foreign);
    beside = apply(large, ApplyMode::AUTO, false, visitor);
    pass(1 * kj::SECONDS);
    ASSERT_TRUE(loading.poll(io.waitScope));
    EXPECT_EQ("source", running());
  }
  auto text = refusal(kj::mv(beside));
  EXPECT_TRUE(contains(text, "Unauthenticated: this node has a config now")) << text;
  for (bool dryRun : {true, false}) {
    text = refusal(apply(document("b"), ApplyMode::AUTO, dryRun, visitor));
    EXPECT_TRUE(contains(text, "Unauthenticated")) << text;
  }
  EXPECT_EQ("source", running());
}

// Catches: a source that is queried only once, too often, or after an operator's config has
// arrived.
TEST_F(ConfigManagerTest, ASourceThatGivesNothingGoodIsAskedAgain) {
  sources.answers.add(kj::str("!http://source/: connection refused"));
  sources.answers.add(kj::str("<html>\n"));
  sources.answers.add(kj::str(document("late")));
  auto loading = waitForAConfig();
  auto& b = brain();
  EXPECT_EQ("no machine config: http://source/: connection refused",
            b.manager.maintenanceReasons()[0]);
  pass(1 * kj::SECONDS);
  EXPECT_EQ(2u, sources.searches);
  EXPECT_EQ("the machine config is not valid:", b.manager.maintenanceReasons()[0]);
  EXPECT_TRUE(b.manager.maintenanceReasons()[1].startsWith("http://source/:1:1"))
      << b.manager.maintenanceReasons()[1].cStr();
  pass(1 * kj::SECONDS);
  EXPECT_EQ(2u, sources.searches);
  pass(1 * kj::SECONDS);
  EXPECT_EQ(3u, sources.searches);
  ASSERT_TRUE(loading.poll(io.waitScope));
  EXPECT_EQ("late", running());
  EXPECT_FALSE(b.manager.inMaintenance());
}

// Catches: pauses that grow without limit, so that a server which is up again is noticed days
// later.
TEST_F(ConfigManagerTest, ASourceIsAskedAboutEachMinute) {
  sources.answers.add(kj::str("!down"));
  auto loading = waitForAConfig();
  for (unsigned i = 0; i < 12; i++) {
    auto before = sources.searches;
    pass(64 * kj::SECONDS);
    EXPECT_EQ(before + 1, sources.searches);
  }
  unsigned printed = 0;
  for (auto& line : brain().said) printed += line.startsWith("maintenance: ");
  EXPECT_EQ(printed, 1u) << "the same reason is printed once";
  EXPECT_EQ(brain().changes, 1u);
}

// Catches: an operator's document that a document from the source overwrites.
TEST_F(ConfigManagerTest, TheFirstGoodDocumentWins) {
  sources.answers.add(kj::str("!not now"));
  sources.answers.add(kj::str(document("source")));
  auto loading = waitForAConfig();
  auto paf = kj::newPromiseAndFulfiller<void>();
  disk.gate = kj::mv(paf.promise);
  auto call = apply(document("operator"), ApplyMode::AUTO);
  EXPECT_FALSE(call.poll(io.waitScope));
  pass(1 * kj::SECONDS);  // the source answers while the operator's document is being written
  EXPECT_EQ(2u, sources.searches);
  EXPECT_EQ("-/-*", state());
  paf.fulfiller->fulfill();
  call.wait(io.waitScope);
  ASSERT_TRUE(loading.poll(io.waitScope));
  settle();
  EXPECT_EQ("operator/operator", state());
}

// Catches: a new brain that leaves maintenance for a moment, so that the certificate that an
// operator knows is replaced.
TEST_F(ConfigManagerTest, MaintenanceGoesOnInANewBrain) {
  sources.answers.add(kj::str());
  auto loading = waitForAConfig();
  putRecord<rpc::ApiCertificateSpec>(
      brain().store, "api",
      [&](rpc::ApiCertificateSpec::Builder spec) { spec.setMaintenance(true); });
  loading = kj::NEVER_DONE;
  auto& second = start();
  EXPECT_TRUE(second.manager.inMaintenance());
  loading = second.manager.load();
  EXPECT_FALSE(loading.poll(io.waitScope));
  EXPECT_EQ("no machine config: http://source/ has no user data",
            second.manager.maintenanceReasons()[0]);
  // An accepted config ends maintenance for every brain.
  auto paf = kj::newPromiseAndFulfiller<void>();
  disk.gate = kj::mv(paf.promise);
  auto call = apply(document("b"), ApplyMode::AUTO);
  EXPECT_FALSE(call.poll(io.waitScope));
  call = ConfigManager::Outcome();
  loading = kj::NEVER_DONE;
  auto& third = start();
  ASSERT_FALSE(third.manager.inMaintenance());
  EXPECT_EQ("b/b", state());
  third.manager.load().wait(io.waitScope);
  // The earlier certificate may still exist.
  EXPECT_FALSE(start().manager.inMaintenance());
}

// Catches: a node whose only source is cleared before its config is on its disk, or although the
// config must not be on disk; a config that stays readable after a crash between writing the copy
// and clearing the source, or because the hypervisor restored it; a boot that fails because the
// hypervisor refuses.
TEST_F(ConfigManagerTest, ClearsASourceThatEveryProcessReads) {
  auto clear = [this]() {
    brain().manager.clearSource().wait(io.waitScope);
    return KJ_ASSERT_NONNULL(sources.readable).empty();
  };
  auto give = [this]() {
    kj::Vector<kj::String> names;
    names.add(kj::str("guestinfo.userdata"));
    sources.readable = kj::mv(names);
  };
  give();
  sources.answers.add(kj::str(document("source")));
  start();
  load();
  EXPECT_FALSE(clear()) << "it is not on disk yet";
  EXPECT_TRUE(
      brain().saidThat("warning: the guest information keeps the machine config, because "
                       "it differs from the copy on disk; every process"));
  brain().manager.save().wait(io.waitScope);
  disk.volatileBecause = kj::str("nothing is mounted at /system/state");
  EXPECT_FALSE(clear());
  EXPECT_TRUE(brain().saidThat("because nothing is mounted at /system/state; "));
  disk.volatileBecause = nullptr;

  machine.drop();  // a power cut
  start();
  load();
  EXPECT_EQ(1u, sources.searches);
  sources.refusal = kj::str("read only");
  EXPECT_FALSE(clear());
  EXPECT_TRUE(
      brain().saidThat("cannot clear the machine config in the guest information: read "
                       "only; every process"));
  sources.refusal = nullptr;
  EXPECT_TRUE(clear());
  EXPECT_TRUE(
      brain().saidThat("cleared the machine config in guestinfo.userdata, as it is in "
                       "config.yaml"));
  give();  // from the hypervisor's configuration file, while the machine was off
  EXPECT_TRUE(clear());

  machine.drop();
  give();
  disk.content = nullptr;
  sources.answers.clear();
  sources.answers.add(kj::str(document("source", "", false)));
  start();
  load();
  brain().manager.save().wait(io.waitScope);
  EXPECT_FALSE(clear());
  EXPECT_TRUE(brain().saidThat("because the config has persist: false; "));
}

}  // namespace
}  // namespace talos::machined
