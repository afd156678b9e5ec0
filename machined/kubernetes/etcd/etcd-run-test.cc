#include "machined/kubernetes/etcd/etcd-run.h"

#include <capnp/message.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "common/base/file.h"
#include "common/testing/test-tree.h"
#include "common/tls/pki.h"
#include "machined/kubernetes/etcd/etcd-config.h"
#include "machined/kubernetes/etcd/test-etcd-supervisor.h"
#include "machined/resources/store-records.h"
#include "machined/resources/test-store.h"
#include "machined/services/test-supervisor.h"

namespace talos::machined {
namespace {

using testing::Contains;

struct Spec {
  explicit Spec(std::initializer_list<std::pair<kj::StringPtr, kj::StringPtr>> arguments) {
    auto list = message.initRoot<rpc::EtcdSpecSpec>().initArguments(arguments.size());
    size_t i = 0;
    for (auto& [key, value] : arguments) {
      list[i].setKey(key);
      list[i++].setValue(value);
    }
  }
  rpc::EtcdSpecSpec::Builder build() { return message.getRoot<rpc::EtcdSpecSpec>(); }
  rpc::EtcdSpecSpec::Reader get() { return build().asReader(); }
  capnp::MallocMessageBuilder message;
};

kj::String commandLine(std::initializer_list<kj::StringPtr> words) {
  kj::Vector<char> text;
  for (auto word : words) {
    text.addAll(word);
    text.add('\0');
  }
  text.add('\0');
  return kj::String(text.releaseAsArray());
}

// Catches: etcd that is restarted without a change, or continues to run with old arguments.
TEST(EtcdRun, KnowsWhatRunsByItsCommandLine) {
  Spec spec({{"data-dir", "/var/lib/etcd"}, {"name", "master-1"}});
  struct Row {
    kj::String cmdline;
    kj::Maybe<bool> wanted;
  } rows[] = {
      {commandLine({"/usr/bin/etcd", "--data-dir=/var/lib/etcd", "--name=master-1"}), true},
      {commandLine({"/usr/local/bin/etcd", "--data-dir=/var/lib/etcd", "--name=master-1"}), true},
      {commandLine({"/usr/bin/etcd", "--data-dir=/var/lib/etcd", "--name=master-2"}), false},
      {commandLine({"/usr/bin/etcd", "--data-dir=/var/lib/etcd"}), false},
      {commandLine(
           {"/usr/bin/etcd", "--data-dir=/var/lib/etcd", "--name=master-1", "--debug=true"}),
       false},
      {commandLine({"/usr/libexec/talos/confine", "--uid=60", "--", "/usr/bin/etcd"}), nullptr},
      {kj::str(), nullptr},
  };
  for (auto& row : rows) EXPECT_TRUE(row.wanted == runsAsWanted(row.cmdline, "", spec.get()));
  spec.build().setWaitsFor("a cluster");
  for (auto i : {0, 5}) {
    EXPECT_FALSE(runsAsWanted(rows[i].cmdline, "", spec.get()).orDefault(true)) << "it is to stop";
  }
}

// Catches: etcd that keeps the proxy of a moved cluster for ever, or never gets it; a proxy of
// machine.env that is taken for ours, so that etcd is restarted again and again.
TEST(EtcdRun, KnowsTheProxyByTheEnvironment) {
  Spec spec({{"name", "master-1"}});
  auto cmdline = commandLine({"/usr/bin/etcd", "--name=master-1"});
  auto with = commandLine({"PATH=/bin", "HTTPS_PROXY=http://127.0.0.1:2382", "NO_PROXY="});
  auto users = commandLine({"HTTPS_PROXY=http://10.0.0.1:3128"});
  auto wanted = [&](kj::StringPtr environ) {
    return KJ_ASSERT_NONNULL(runsAsWanted(cmdline, environ, spec.get()));
  };
  EXPECT_TRUE(wanted(users));
  EXPECT_FALSE(wanted(with));
  EXPECT_TRUE(etcdVariables(spec.get()).empty());
  spec.build().setProxy(kj::str("http://127.0.0.1:", kEtcdProxyPort));
  EXPECT_FALSE(wanted(users));
  EXPECT_TRUE(wanted(with));
  EXPECT_EQ("HTTPS_PROXY=http://127.0.0.1:2382 https_proxy= NO_PROXY= no_proxy=",
            kj::strArray(etcdVariables(spec.get()), " "));
}

// Catches: keys that others can read, or that etcd cannot.
TEST(EtcdRun, FilesBelongToEtcdAlone) {
  TestTree tree;
  capnp::MallocMessageBuilder message;
  auto secrets = message.initRoot<rpc::EtcdSecretsSpec>();
  secrets.setCa("ca"_kj.asBytes());
  secrets.initServer().setKey("server key"_kj.asBytes());
  secrets.initEtcdPeer().setCrt("peer certificate"_kj.asBytes());
  auto folder = kj::str(tree.root, "/pki/etcd");
  for (int again = 0; again < 2; ++again) writeEtcdFiles(folder, secrets.asReader(), 60);
  struct stat info;
  for (auto [name, content] :
       {std::pair("ca.crt"_kj, "ca"_kj), std::pair("server.key"_kj, "server key"_kj),
        std::pair("peer.crt"_kj, "peer certificate"_kj), std::pair("peer.key"_kj, ""_kj)}) {
    auto path = kj::str(folder, "/", name);
    ASSERT_EQ(0, stat(path.cStr(), &info)) << path.cStr();
    EXPECT_EQ(60u, info.st_uid);
    EXPECT_EQ(0400u, info.st_mode & 07777);
    EXPECT_EQ(content, readFile(path));
  }
  ASSERT_EQ(0, stat(folder.cStr(), &info));
  EXPECT_EQ(0700u, info.st_mode & 07777);
  EXPECT_EQ(60u, info.st_uid);
  ASSERT_EQ(0, stat(tree.at("pki").cStr(), &info));
  EXPECT_EQ(0755u, info.st_mode & 07777) << "etcd could not get there";
}

// Catches: files that are written without a change; a changed CA that is not noticed.
TEST(EtcdRun, OnlyWhatDiffersIsWritten) {
  TestTree tree;
  auto folder = tree.at("pki/etcd");
  capnp::MallocMessageBuilder message;
  auto secrets = message.initRoot<rpc::EtcdSecretsSpec>();
  secrets.setCa("ca"_kj.asBytes());
  secrets.initServer().setKey("one"_kj.asBytes());
  auto change = [&] { return authorityChange(folder, secrets.asReader()); };
  auto inode = [&](kj::StringPtr name) {
    struct stat info = {};
    KJ_SYSCALL(stat(kj::str(folder, "/", name).cStr(), &info));
    return info.st_ino;
  };
  EXPECT_EQ(change(), AuthorityChange::kNone) << "the first one is no change";
  writeEtcdFiles(folder, secrets.asReader(), 60);
  auto ca = inode("ca.crt"), key = inode("server.key");
  secrets.getServer().setKey("two"_kj.asBytes());
  EXPECT_EQ(change(), AuthorityChange::kNone);
  writeEtcdFiles(folder, secrets.asReader(), 60);
  EXPECT_EQ(ca, inode("ca.crt"));
  EXPECT_NE(key, inode("server.key"));
  EXPECT_EQ("two", readFile(kj::str(folder, "/server.key")));
  secrets.setCa("another"_kj.asBytes());
  EXPECT_EQ(change(), AuthorityChange::kOther);
}

// Catches: members that restart immediately although they need each other, or that wait for a turn
// which they cannot get because they refuse each other.
TEST(EtcdRun, AuthoritiesThatOverlap) {
  auto old = pki::makeAuthority({.organization = "etcd"}),
       next = pki::makeAuthority({.organization = "etcd"});
  auto leaf = [](const pki::CertificateAndKey& ca) {
    return pki::issue(ca.certificate, ca.key, {.commonName = "a"}).certificate;
  };
  auto both = kj::str(old.certificate, next.certificate);
  struct Row {
    kj::StringPtr presentCas;
    const pki::CertificateAndKey& present;
    kj::StringPtr wantedCas;
    const pki::CertificateAndKey& wanted;
    AuthorityChange change;
  };
  for (auto& row : {Row{old.certificate, old, both, old, AuthorityChange::kOverlapping},
                    Row{both, old, both, next, AuthorityChange::kNone},
                    Row{both, next, next.certificate, next, AuthorityChange::kOverlapping},
                    Row{old.certificate, old, next.certificate, next, AuthorityChange::kOther},
                    Row{both, old, next.certificate, next, AuthorityChange::kOther},
                    Row{old.certificate, old, both, next, AuthorityChange::kOther}}) {
    TestTree tree;
    auto folder = tree.at("pki/etcd");
    capnp::MallocMessageBuilder message;
    auto secrets = message.initRoot<rpc::EtcdSecretsSpec>();
    auto fill = [&](kj::StringPtr cas, const pki::CertificateAndKey& ca) {
      secrets.setCa(cas.asBytes());
      secrets.initEtcdPeer().setCrt(leaf(ca).asBytes());
    };
    fill(row.presentCas, row.present);
    writeEtcdFiles(folder, secrets.asReader(), 60);
    fill(row.wantedCas, row.wanted);
    EXPECT_EQ(authorityChange(folder, secrets.asReader()), row.change);
  }
}

// --- the service

struct EtcdService : public SupervisorTest {
  ~EtcdService() noexcept override {}
  TestTree tree;
  Registry registry;
  TestClock clock;
  Store store{registry, clock};
  kj::Own<ModelOfReruns> owned = kj::heap<ModelOfReruns>();
  ModelOfReruns& membership = *owned;
  rpc::EtcdSupervisor::Client client = kj::mv(owned);
  kj::Maybe<EtcdRun> etcd;
  kj::String unpackFails;
  bool fails = false;
  unsigned tries = 0;

  EtcdService() {
    makeDirectories(tree.at("var"), 0755);
    makeDirectories(tree.at("pki"), 0755);
    put<rpc::EtcdSecretsSpec>([](auto spec) { spec.setCa("ca"_kj.asBytes()); });
    begin();
  }
  template <typename Spec, typename F>
  void put(F&& fill) {
    putRecord<Spec>(store, kEtcdId, kj::fwd<F>(fill), "test");
  }
  void begin() {
    etcd.emplace(EtcdRun::Dependencies{
        .timer = timer,
        .blocking =
            [](kj::Function<void()> work) {
              return kj::evalNow([&]() -> kj::Promise<void> {
                work();
                return kj::READY_NOW;
              });
            },
        .store = store,
        .supervisor = *supervisor,
        .data = data,
        .pki = pki,
        .chosenImage = image,
        .processes = processes,
        .unpack = [this](auto, kj::StringPtr, kj::StringPtr folder) -> kj::Promise<void> {
          makeDirectories(kj::str(folder, "/member"), 0700);
          if (unpackFails.size() == 0) return kj::READY_NOW;
          return error(ErrorKind::kInvalidArgument, kj::str(unpackFails));
        },
        .membership = client});
    auto& run = KJ_ASSERT_NONNULL(etcd);
    auto d = define("etcd");
    d.prepare = [this, &run](kj::Function<void(kj::StringPtr)> note) -> kj::Promise<void> {
      ++tries;
      if (fails) return error(ErrorKind::kNotFound, kj::str("no such image"));
      return run.prepare(kj::mv(note));
    };
    d.arguments = [&run] { return run.arguments(); };
    supervisor->load(kj::mv(d));
    run.follow();
  }
  // Publishes a config with one argument, or, without a value, with none.
  void configure(kj::StringPtr value) {
    put<rpc::EtcdConfigSpec>([&](rpc::EtcdConfigSpec::Builder spec) {
      if (value.size() == 0) return;
      auto argument = spec.initExtraArgs(1)[0];
      argument.setKey("name");
      argument.setValue(value);
    });
  }
  // Publishes the spec that etcd-supervisor makes from the present config.
  void wants(kj::StringPtr waitsFor, kj::StringPtr name = "master-1") {
    put<rpc::EtcdSpecSpec>([&](rpc::EtcdSpecSpec::Builder spec) {
      spec.setWaitsFor(waitsFor);
      KJ_IF_MAYBE (config, store.tryGet<rpc::EtcdConfigSpec>(kEtcdId)) {
        spec.setConfigVersion(config->version());
      }
      auto argument = spec.initArguments(1)[0];
      argument.setKey("name");
      argument.setValue(name);
    });
    advance(1 * kj::SECONDS);
  }
  // Makes the process etcd instead of its exec wrapper.
  void isEtcd(kj::StringPtr argument) {
    auto folder = kj::str(processes, "/", machine.child("etcd").pid);
    makeDirectories(folder, 0755);
    auto line = commandLine({"/usr/bin/etcd", argument});
    writeFileAtomically(kj::str(folder, "/cmdline"), line.asArray(), 0644);
    advance(2 * kj::SECONDS);
  }
  kj::Promise<kj::Maybe<kj::String>> ask() {
    return KJ_ASSERT_NONNULL(etcd).notInEffect(15 * kj::SECONDS,
                                               [] { return kj::str("its own words"); });
  }
  std::string answer(kj::Promise<kj::Maybe<kj::String>> asked) {
    if (!asked.poll(scope)) return "no answer yet";
    return std::string(asked.wait(scope).orDefault(kj::str("in effect")).cStr());
  }
  kj::String authority() { return readFile(kj::str(pki, "/ca.crt")); }
  kj::String data = kj::str(tree.at("var"), "/etcd"), pki = kj::str(tree.at("pki"), "/etcd"),
             image = tree.at("image"), processes = tree.at("proc");
};

// Catches: etcd that runs before the spec wants it, with other arguments than the spec's, or longer
// than the spec wants.
TEST_F(EtcdService, RunsAsTheSpecWants) {
  supervisor->start("etcd");
  wants("a cluster");
  EXPECT_FALSE(machine.runs("etcd"));
  EXPECT_THAT(events, Contains("etcd Preparing Waiting for a cluster"));
  wants("");
  ASSERT_TRUE(machine.runs("etcd"));
  EXPECT_EQ("ca", authority());
  isEtcd("--name=master-1");
  auto pid = machine.child("etcd").pid;
  wants("", "master-1");
  EXPECT_EQ(pid, machine.child("etcd").pid);
  wants("", "master-2");
  ASSERT_TRUE(machine.runs("etcd"));
  EXPECT_NE(pid, machine.child("etcd").pid);
  isEtcd("--name=master-2");
  wants("a bootstrap");
  EXPECT_FALSE(machine.runs("etcd"));
}

// Catches: etcd that runs with an old CA because the brain died after writing the new one and
// before requesting the restart.
TEST_F(EtcdService, ANewAuthorityIsWrittenForAStartOnly) {
  supervisor->start("etcd");
  wants("");
  isEtcd("--name=master-1");
  auto pid = machine.child("etcd").pid;
  machine.diesOf = [](auto&, int) { return false; };
  put<rpc::EtcdSecretsSpec>([](auto spec) { spec.setCa("another"_kj.asBytes()); });
  advance(1 * kj::SECONDS);
  EXPECT_EQ("ca", authority()) << "it still runs";
  EXPECT_EQ(pid, machine.child("etcd").pid);
  EXPECT_EQ(1u, machine.child("etcd").signals.size()) << "it is asked to end";
  machine.exit("etcd", 0);
  advance(10 * kj::SECONDS);
  ASSERT_TRUE(machine.runs("etcd"));
  EXPECT_EQ("another", authority());
}

// Catches: a member that restarts for additional CAs while the others need it; additional CAs that
// are in its files although its process does not have them.
TEST_F(EtcdService, AuthoritiesBesideItsOwnWaitForItsTurn) {
  auto old = pki::makeAuthority({.organization = "etcd"}),
       next = pki::makeAuthority({.organization = "etcd"});
  auto leaf = pki::issue(old.certificate, old.key, {.commonName = "a"});
  auto putSecrets = [&](kj::StringPtr cas) {
    put<rpc::EtcdSecretsSpec>([&](rpc::EtcdSecretsSpec::Builder spec) {
      spec.setCa(cas.asBytes());
      spec.initEtcdPeer().setCrt(leaf.certificate.asBytes());
    });
  };
  putSecrets(old.certificate);
  supervisor->start("etcd");
  wants("");
  isEtcd("--name=master-1");
  auto pid = machine.child("etcd").pid;
  membership.refuses = true;
  auto both = kj::str(old.certificate, next.certificate);
  putSecrets(both);
  advance(1 * kj::MINUTES);
  EXPECT_EQ(pid, machine.child("etcd").pid);
  EXPECT_EQ(old.certificate, authority());
  membership.refuses = false;
  advance(10 * kj::SECONDS);
  EXPECT_NE(pid, machine.child("etcd").pid);
  EXPECT_EQ(both, authority());
  isEtcd("--name=master-1");
  EXPECT_EQ(0, membership.turns);
  pid = machine.child("etcd").pid;
  advance(1 * kj::MINUTES);
  EXPECT_EQ(pid, machine.child("etcd").pid) << "it is restarted once";
}

// Catches: an etcd that is stopped although the others need it, or is never restarted; a turn that
// is given back before the restart has ended.
TEST_F(EtcdService, RestartsWhenItIsItsTurn) {
  supervisor->start("etcd");
  wants("");
  isEtcd("--name=master-1");
  auto pid = machine.child("etcd").pid;
  membership.refuses = true;
  wants("", "master-2");
  advance(1 * kj::MINUTES);
  EXPECT_EQ(pid, machine.child("etcd").pid);
  membership.refuses = false;
  advance(10 * kj::SECONDS);
  EXPECT_NE(pid, machine.child("etcd").pid);
  EXPECT_EQ(1, membership.turns) << "it is not etcd yet";
  isEtcd("--name=master-2");
  EXPECT_EQ(0, membership.turns);

  // An etcd that must not run any more needs no turn.
  membership.refuses = true;
  wants("the next reboot");
  EXPECT_FALSE(machine.runs("etcd"));
}

// Catches: a snapshot that is unpacked for ever; a start without it; leftovers after which no
// bootstrap would begin again.
TEST_F(EtcdService, ASnapshotThatCannotBeUnpackedIsGivenUp) {
  unpackFails = kj::str("etcdutl exited with status 2: failed to open database");
  tree.file("snapshot", "x");
  auto snapshot = tree.at("snapshot");
  auto wantsRecovery = [&] {
    put<rpc::EtcdSpecSpec>([&](rpc::EtcdSpecSpec::Builder spec) {
      spec.setRecoverFrom(snapshot);
      spec.initArguments(1)[0].setKey("name");
    });
  };
  membership.deaf = true;
  membership.whenFailed = [&] {
    EXPECT_NE(0, access(kj::str(data, "/recovered").cStr(), F_OK));
    wants("a cluster");
  };
  supervisor->start("etcd");
  wantsRecovery();
  advance(20 * kj::SECONDS);
  EXPECT_FALSE(machine.runs("etcd"));
  EXPECT_EQ(membership.failed, "");
  membership.deaf = false;
  advance(10 * kj::SECONDS);
  EXPECT_EQ(membership.failed, unpackFails);
  EXPECT_FALSE(machine.runs("etcd"));

  unpackFails = nullptr;
  wantsRecovery();
  advance(10 * kj::SECONDS);
  EXPECT_TRUE(machine.runs("etcd"));
  EXPECT_EQ(0, access(kj::str(data, "/member").cStr(), F_OK));
  EXPECT_NE(0, access(snapshot.cStr(), F_OK)) << "it is not needed any more";
}

// Output of etcdutl 3.5.16.
TEST(EtcdRun, WordsOfTheTool) {
  struct Row {
    kj::StringPtr output, words;
  } rows[] = {
      {"2026-01-01T00:00:00Z\tinfo\trestoring snapshot\nError: write /x: no space left on device\n",
       ": write /x: no space left on device"},
      {"2026-01-01T00:00:00Z\tinfo\trestoring\npanic: failed to open database\n\ngoroutine 1 "
       "[run]:\n",
       ": failed to open database"},
      {"unexpected fault address 0x7f\nfatal error: fault\n[signal SIGBUS]\n", ": fault"},
      {"cannot\x1b[0m\n\n", ": cannot?[0m"},
      {"", ""},
  };
  for (auto& row : rows) EXPECT_EQ(errorOfTool(row.output), row.words);
}

// Catches: a failed start that is never retried, or every second for ever.
TEST_F(EtcdService, AFailedStartIsTriedAgainAtALowerAndLowerPace) {
  fails = true;
  supervisor->start("etcd");
  wants("");
  advance(5 * kj::MINUTES);
  EXPECT_GE(tries, 6u);
  EXPECT_LE(tries, 14u);
  fails = false;
  advance(1 * kj::MINUTES);
  EXPECT_TRUE(machine.runs("etcd"));
}

// Output of etcd 3.5.16.
TEST(EtcdRun, WordsOfEtcd) {
  struct Row {
    kj::StringPtr output, words;
  } rows[] = {
      {R"({"level":"info","msg":"ready"})"
       "\nflag provided but not defined: -no-such-flag\nUsage:\n\n  etcd [flags]\n"
       "    Only supports debug, info, warn, error, panic, or fatal.\n",
       "flag provided but not defined: -no-such-flag"},
      {R"({"level":"fatal","caller":"a.go:1","msg":"discovery failed","error":"a \"b\""})",
       R"(discovery failed: a \"b\")"},
      {R"({"level":"error","msg":"x"})"
       "\npanic: no space\n\ngoroutine 1 [run]:\n",
       "panic: no space"},
      {R"({"level":"warn","msg":"slow","error":"late"})", ""},
      {"", ""},
  };
  for (auto& row : rows) EXPECT_EQ(errorOfEtcd(row.output), row.words);
}

// Catches: "in effect" for an argument with which etcd ends at once, or before etcd-supervisor and
// etcd have taken it; a failure from before the change that counts; an etcd that gets no turn.
TEST_F(EtcdService, AnArgumentThatEtcdRefusesIsNotInEffect) {
  EXPECT_EQ("in effect", answer(ask())) << "there is no etcd";
  supervisor->start("etcd");
  wants("a cluster");
  EXPECT_EQ("in effect", answer(ask())) << "it must not run";
  configure("master-1");
  wants("");
  isEtcd("--name=master-1");
  EXPECT_EQ("in effect", answer(ask()));

  configure("master-2");
  auto asked = ask();
  advance(5 * kj::SECONDS);
  EXPECT_FALSE(asked.poll(scope)) << "the spec is that of the config before";
  wants("", "master-2");
  advance(2 * kj::SECONDS);
  isEtcd("--name=master-2");
  EXPECT_EQ("in effect", answer(kj::mv(asked)));

  configure("master-3");
  asked = ask();
  wants("", "master-3");
  advance(2 * kj::SECONDS);
  EXPECT_FALSE(asked.poll(scope));
  machine.exit("etcd", 2);
  advance(1 * kj::SECONDS);
  EXPECT_EQ("etcd does not start: its own words", answer(kj::mv(asked)));

  membership.refuses = true;
  advance(10 * kj::SECONDS);
  isEtcd("--name=master-3");
  EXPECT_EQ("in effect", answer(ask())) << "the failure was earlier";
  configure("master-4");
  wants("", "master-4");
  asked = ask();
  advance(16 * kj::SECONDS);
  EXPECT_THAT(answer(kj::mv(asked)), testing::HasSubstr("etcd cannot be restarted yet: "));
}

// Catches: "in effect" for the removal of an argument that etcd-supervisor still has in the spec,
// and etcd in its command line.
TEST_F(EtcdService, ARemovedArgumentIsNotInEffectWhileTheSpecIsThatOfTheConfigBefore) {
  supervisor->start("etcd");
  configure("master-1");
  wants("");
  isEtcd("--name=master-1");
  EXPECT_EQ("in effect", answer(ask()));
  configure("");
  auto asked = ask();
  advance(5 * kj::SECONDS);
  EXPECT_FALSE(asked.poll(scope)) << "the spec has the argument";
  wants("", "host");
  advance(2 * kj::SECONDS);
  EXPECT_FALSE(asked.poll(scope)) << "etcd has not restarted";
  isEtcd("--name=host");
  EXPECT_EQ("in effect", answer(kj::mv(asked)));

  // A change of the config that leaves the arguments as they are.
  put<rpc::EtcdConfigSpec>([](auto spec) { spec.initPeers(1).set(0, "10.0.0.2"); });
  asked = ask();
  EXPECT_FALSE(asked.poll(scope)) << "etcd-supervisor has not seen it";
  wants("", "host");
  EXPECT_EQ("in effect", answer(kj::mv(asked)));
}

// Catches: "in effect" for subnets in which this node has no address, so that etcd keeps the
// address from before.
TEST_F(EtcdService, AConfigThatWaitsForAnAddressIsNotInEffect) {
  auto address = "an address in 10.6.0.0/16 (cluster.etcd.advertisedSubnets)"_kj;
  supervisor->start("etcd");
  put<rpc::EtcdConfigSpec>([&](auto spec) { spec.setWaitsFor(address); });
  wants("");
  isEtcd("--name=master-1");
  auto asked = ask();
  EXPECT_FALSE(asked.poll(scope)) << "it may be about to get one";
  advance(16 * kj::SECONDS);
  auto problem = kj::str("etcd waits for ", address);
  EXPECT_EQ(problem.cStr(), answer(kj::mv(asked)));
  EXPECT_EQ(problem, peerUrlState(store).problem.orDefault(kj::String()));
  put<rpc::EtcdConfigSpec>([](auto) {});
  wants("");
  EXPECT_EQ("in effect", answer(ask()));
}

}  // namespace
}  // namespace talos::machined
