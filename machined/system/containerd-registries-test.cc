#include "machined/system/containerd-registries.h"

#include <gmock/gmock.h>
#include <kj/async-io.h>
#include <kj/encoding.h>

#include <map>
#include <string>

#include "common/base/error.h"
#include "common/config/config.h"
#include "common/config/rules/containerd-part.h"
#include "common/tls/pki.h"
#include "machined/config/controllers/hosts-controller.h"
#include "machined/config/controllers/registries-controller.h"
#include "machined/resources/store-records.h"
#include "machined/resources/test-store.h"
#include "machined/system/test-system-tree.h"

namespace talos::machined {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

using Files = std::map<std::string, std::string>;

// Renders the YAML of machine.registries; `folder` is /f.
Files render(kj::StringPtr yaml, CachePlace cache = CachePlace::kNone) {
  auto text = kj::str("machine:\n  registries:\n    mirrors: {}\n    ", yaml, "\n");
  if (yaml.startsWith("mirrors")) text = kj::str("machine:\n  registries:\n    ", yaml, "\n");
  auto config = config::parse(text.asArray(), "test");
  for (auto& p : config.problems()) {
    bool error = p.severity == Problem::Severity::kError;
    if (error && p.path.startsWith("machine.registries")) ADD_FAILURE() << p.toString().cStr();
  }
  Files files;
  for (auto& file :
       registryFiles(config.get().getMachine().getRegistries(), "/f", OomScores::kAny, "", cache))
    files[file.path.cStr()] = file.content.cStr();
  return files;
}
// Returns the file without the line about its origin.
std::string hosts(const Files& files, const std::string& name) {
  auto found = files.find("certs.d/" + name + "/hosts.toml");
  if (found == files.end()) return "(none)";
  return found->second.substr(found->second.find('\n') + 1);
}
std::vector<std::string> names(const Files& files) {
  std::vector<std::string> result;
  for (auto& file : files) result.push_back(file.first);
  return result;
}

// Returns the lines of this host.
std::string each(const std::string& url, const std::vector<std::string>& more = {}) {
  std::string text = "\"" + url + "\".capabilities = [\"pull\", \"resolve\"]\n";
  for (auto& line : more) text += "\"" + url + "\"." + line + "\n";
  return text;
}

// Catches: the air-gapped guide's slash that is taken for a path (a pull would request //v2); a
// Catches: a registry that containerd asks before the node's own images, or no more after them.
TEST(ContainerdRegistries, TheCacheOfTheNodeComesFirst) {
  const std::string cache = "http://127.0.0.1:3172";
  auto files =
      render("mirrors: {docker.io: {endpoints: ['http://10.5.0.1:5000']}}", CachePlace::kHere);
  EXPECT_EQ(hosts(files, "docker.io"), "\n[host]\n" + each(cache) + each("http://10.5.0.1:5000"));
  EXPECT_EQ(hosts(files, "_default"), "\n[host]\n" + each(cache));
  files = render("config: {a.example: {tls: {insecureSkipVerify: true}}}", CachePlace::kHere);
  EXPECT_THAT(
      hosts(files, "a.example"),
      testing::AllOf(testing::HasSubstr("server = \"https://a.example\"\nskip_verify"),
                     testing::HasSubstr("[host]\n" + each(cache) +
                                        each("https://a.example", {"skip_verify = true"}))));
}

// name * that containerd does not know.
TEST(RegistryFiles, AirGapped) {
  auto files = render("mirrors:\n      '*':\n        endpoints: [\"http://10.5.0.1:6000/\"]");
  EXPECT_EQ("\n[host]\n" + each("http://10.5.0.1:6000"), hosts(files, "_default"));
  EXPECT_THAT(names(files),
              ElementsAre("certs.d/_default/hosts.toml", "conf.d/10-registries.toml"));
}

// Catches: overrides of containerd's specification that it does not read, or reads before they are
// written; a runtime without a type, with which the plugin for Kubernetes does not start.
TEST(RegistryFiles, TheSpecificationOfContainersIsNamed) {
  capnp::MallocMessageBuilder message;
  auto registries = message.initRoot<config::Registries>().asReader();
  auto files = registryFiles(registries, "/f", OomScores::kAny, "{}\n");
  ASSERT_EQ(2u, files.size());
  EXPECT_STREQ("conf.d/base-spec.json", files[0].path.cStr());
  EXPECT_STREQ("{}\n", files[0].content.cStr());
  EXPECT_THAT(
      systemPart(files).cStr(),
      testing::HasSubstr("\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc]\n"
                         "runtime_type = \"io.containerd.runc.v2\"\n"
                         "base_runtime_spec = \"/f/conf.d/base-spec.json\"\n"));
}

// Catches: the bracket of an IPv6 address in the name of a table, where containerd's reader takes
// it for the table's end: no mirror is used, or containerd does not start.
TEST(RegistryFiles, AnAddressOfIpv6IsInNoTablesName) {
  auto files = render(
      "mirrors:\n      '*': {endpoints: [\"http://[fd00::1]:5000\"]}\n"
      "    config:\n      \"[fd00::1]:5000\": {auth: {auth: dTpw}}");
  EXPECT_EQ("\n[host]\n" + each("http://[fd00::1]:5000"), hosts(files, "_default"));
  EXPECT_THAT(files["conf.d/10-registries.toml"],
              HasSubstr("configs]\n\"[fd00::1]:5000\".auth.auth = \"dTpw\"\n"));
}

// Catches: endpoints in another order; a duplicate endpoint (a duplicate table is not TOML); a path
// that gets /v2 appended; a port in the folder's name in another form than containerd's.
TEST(RegistryFiles, EndpointsAreTriedInTheirOrder) {
  auto files = render(
      "mirrors:\n      r.example:5000:\n        endpoints: [\"https://b/\", \"https://a/x/y//\", "
      "\"https://b\"]");
  EXPECT_EQ("\n[host]\n" + each("https://b") + each("https://a/x/y", {"override_path = true"}),
            hosts(files, "r.example_5000_"));
}

// Catches: /v2 after a URL that is to be used as it is, or missing after the registry's own.
TEST(RegistryFiles, OverridePathAddsNothing) {
  auto files = render(
      "mirrors:\n      r.example: {endpoints: [\"https://b\", \"https://a/x\"], overridePath: "
      "true}\n"
      "    config:\n      r.example: {tls: {insecureSkipVerify: true}}");
  EXPECT_EQ("server = \"https://r.example\"\nskip_verify = true\n\n[host]\n" +
                each("https://b", {"override_path = true"}) +
                each("https://a/x", {"override_path = true"}) +
                each("https://r.example", {"skip_verify = true"}),
            hosts(files, "r.example"));
}

// Catches: the registry that is contacted after its endpoints although the config forbids it; the
// last endpoint without its TLS or its path when it takes that place.
TEST(RegistryFiles, WithoutFallbackTheLastEndpointTakesTheRegistrysPlace) {
  auto files = render(
      "mirrors:\n      r.example: {endpoints: [\"http://b\", \"https://a/x\"], skipFallback: "
      "true}\n"
      "      '*': {endpoints: [\"http://m\"], skipFallback: true}\n"
      "    config:\n      a: {tls: {insecureSkipVerify: true}}");
  EXPECT_EQ("server = \"https://a/x\"\noverride_path = true\nskip_verify = true\n\n[host]\n" +
                each("http://b") +
                each("https://a/x", {"override_path = true", "skip_verify = true"}),
            hosts(files, "r.example"));
  EXPECT_EQ("server = \"http://m\"\n\n[host]\n" + each("http://m"), hosts(files, "_default"));
}

// Catches: TLS that is given to another host, or to an endpoint without TLS; a file without a
// section for a host, which containerd does not accept; a client certificate in a file that others
// can read.
TEST(RegistryFiles, TlsBelongsToTheHostThatIsAsked) {
  Files files;
  {
    auto authority = pki::makeAuthority({.organization = "x"});
    auto leaf = pki::issue(authority.certificate, authority.key, {});
    auto base64 = [](kj::StringPtr text) { return kj::encodeBase64(text.asBytes()); };
    files = render(kj::str(
        "mirrors:\n      docker.io:\n        endpoints: [\"https://m:5000\", \"https://n\"]\n"
        "    config:\n      m:5000:\n        tls:\n          ca: ",
        base64(authority.certificate),
        "\n          clientIdentity: {crt: ", base64(leaf.certificate), ", key: ", base64(leaf.key),
        "}\n      own.example:\n        tls: {insecureSkipVerify: true}\n"));
    EXPECT_EQ(std::string(authority.certificate.cStr()), files["tls/m_5000_/ca.pem"]);
    EXPECT_EQ(std::string(leaf.certificate.cStr()) + "\n" + kj::StringPtr(leaf.key).cStr(),
              files["tls/m_5000_/client.pem"]);
  }
  std::string ca = "ca = \"/f/tls/m_5000_/ca.pem\"",
              client = "client = \"/f/tls/m_5000_/client.pem\"";
  EXPECT_EQ("\n[host]\n" + each("https://m:5000", {ca, client}) + each("https://n"),
            hosts(files, "docker.io"));
  EXPECT_EQ("server = \"https://m:5000\"\n" + ca + "\n" + client + "\n\n[host]\n" +
                each("https://m:5000", {ca, client}),
            hosts(files, "m_5000_"));
  EXPECT_EQ("server = \"https://own.example\"\nskip_verify = true\n\n[host]\n" +
                each("https://own.example", {"skip_verify = true"}),
            hosts(files, "own.example"));
}

// Catches: a registry with TLS, or with an empty list of mirrors, that is hidden by the mirror of
// all others, or that lacks this mirror.
TEST(RegistryFiles, AFileOfItsOwnHidesTheOneOfAllOthers) {
  auto files = render(
      "mirrors:\n      '*': {endpoints: [\"http://m\"]}\n      direct.example: {endpoints: []}\n"
      "    config:\n      own.example: {tls: {insecureSkipVerify: true}}");
  EXPECT_EQ("server = \"https://own.example\"\nskip_verify = true\n\n[host]\n" + each("http://m") +
                each("https://own.example", {"skip_verify = true"}),
            hosts(files, "own.example"));
  EXPECT_EQ("server = \"https://direct.example\"\n\n[host]\n" + each("https://direct.example"),
            hosts(files, "direct.example"));
}

// Catches: TLS and credentials of docker.io that are never used, because it is reached under
// another name.
TEST(RegistryFiles, DockersRegistryHasTwoNames) {
  auto files =
      render("config:\n      docker.io: {tls: {insecureSkipVerify: true}, auth: {auth: \"dTpw\"}}");
  EXPECT_EQ("server = \"https://registry-1.docker.io\"\nskip_verify = true\n\n[host]\n" +
                each("https://registry-1.docker.io", {"skip_verify = true"}),
            hosts(files, "docker.io"));
  auto& plugin = files["conf.d/10-registries.toml"];
  EXPECT_THAT(plugin, HasSubstr(".configs]\n\"registry-1.docker.io\".auth.auth = \"dTpw\"\n"));
  EXPECT_THAT(plugin, Not(HasSubstr("\"docker.io\"")));
  files = render(
      "config:\n      docker.io: {auth: {username: a, password: b}}\n"
      "      registry-1.docker.io: {auth: {username: c, password: d}}");
  EXPECT_THAT(files["conf.d/10-registries.toml"], HasSubstr("username = \"c\""));
  EXPECT_THAT(files["conf.d/10-registries.toml"], Not(HasSubstr("username = \"a\"")));
}

// Catches: credentials that end a string of TOML; a precedence other than the documented one;
// secrets that are written although they are never used.
TEST(RegistryFiles, Credentials) {
  auto files = render(
      "config:\n      a: {auth: {username: \"u\\\"\\\\\\n\", password: \"p\\x01\", identityToken: "
      "t}}\n"
      "      b: {auth: {identityToken: t, auth: dTpw}}\n      c: {auth: {}}\n");
  EXPECT_EQ(
      "version = 2\n\n[plugins.\"io.containerd.grpc.v1.cri\"]\n"
      "sandbox_image = \"registry.k8s.io/pause:3.10\"\n\n"
      "[plugins.\"io.containerd.grpc.v1.cri\".cni]\n"
      "bin_dir = \"/opt/cni/bin\"\nconf_dir = \"/etc/cni/net.d\"\n\n"
      "[plugins.\"io.containerd.grpc.v1.cri\".registry]\nconfig_path = "
      "\"/f/certs.d\"\n\n"
      "[plugins.\"io.containerd.grpc.v1.cri\".registry.configs]\n"
      "\"a\".auth.username = \"u\\\"\\\\\\n\"\n\"a\".auth.password = \"p\\u0001\"\n"
      "\"b\".auth.identitytoken = \"t\"\n",
      files["conf.d/10-registries.toml"].substr(files["conf.d/10-registries.toml"].find('\n') + 1));
}

// Catches: files of an earlier config that stay (a removed mirror is used, a key is left); readable
// credentials; a folder whose foreign files are deleted.
TEST(RegistryFolder, HoldsWhatIsWantedAndNothingElse) {
  TestSystemTree tree;
  auto folder = tree.path("/system/etc/cri");
  auto write = [&](std::initializer_list<std::pair<kj::StringPtr, kj::StringPtr>> list) {
    kj::Vector<RegistryFile> files;
    for (auto& f : list) files.add(kj::str(f.first), kj::str(f.second));
    writeRegistryFiles(folder, files);
  };
  tree.put("/system/etc/hosts", "x");
  write({{"tls/a/client.pem", "k1"}, {"certs.d/a/hosts.toml", "1"}, {"conf.d/r.toml", "auth"}});
  EXPECT_EQ(0600u, tree.mode("/system/etc/cri/tls/a/client.pem"));
  EXPECT_EQ(0600u, tree.mode("/system/etc/cri/conf.d/r.toml"));
  struct stat before, after;
  ASSERT_EQ(0, stat(tree.path("/system/etc/cri/conf.d/r.toml").cStr(), &before));
  tree.put("/system/etc/cri/certs.d/a/.talos-new", "of a crash");
  write({{"certs.d/b/hosts.toml", "2"}, {"conf.d/r.toml", "auth"}});
  EXPECT_EQ("2", tree.get("/system/etc/cri/certs.d/b/hosts.toml"));
  for (auto gone : {"/system/etc/cri/tls", "/system/etc/cri/certs.d/a"})
    EXPECT_NE(0, access(tree.path(gone).cStr(), F_OK)) << gone;
  EXPECT_EQ("x", tree.get("/system/etc/hosts"));
  ASSERT_EQ(0, stat(tree.path("/system/etc/cri/conf.d/r.toml").cStr(), &after));
  EXPECT_EQ(before.st_ino, after.st_ino) << "an equal file was written again";
}

struct RegistriesControllerTest : public testing::Test {
  ~RegistriesControllerTest() noexcept override {}
  TestSystemTree tree;
  kj::AsyncIoContext io = kj::setupAsyncIo();
  UvLoop uv{io.unixEventPort, io.provider->getTimer()};
  Registry registry;
  TestClock clock;
  Store store{registry, clock};
  kj::Maybe<kj::StringPtr> content = "1"_kj;
  std::vector<std::string> parts;
  bool broken = false;
  RegistriesController controller{
      uv,
      [this](Store&) {
        return content.map([this](kj::StringPtr c) {
          RegistriesController::Rendered rendered;
          rendered.files.add(kj::str("conf.d/x"), kj::str(c));
          for (auto& part : parts) rendered.parts.add(kj::str(part.c_str()));
          return rendered;
        });
      },
      [this](kj::StringPtr system, kj::ArrayPtr<const kj::String> list) -> kj::Promise<kj::String> {
        if (broken) return error(ErrorKind::kUnavailable, "no process");
        return kj::str(system, "+", kj::strArray(list, "+"));
      },
      tree.path("/cri")};

  void run() { controller.reconcile(store).wait(io.waitScope); }
};

// Catches: a change of the config that is not in the files; files that are deleted while there is
// no config.
TEST_F(RegistriesControllerTest, FollowsTheConfig) {
  for (auto text : {"1"_kj, "2"_kj}) {
    content = text;
    run();
    EXPECT_EQ(text, readFile(tree.path("/cri/conf.d/x")));
  }
  content = nullptr;
  run();
  EXPECT_EQ("2", readFile(tree.path("/cri/conf.d/x")));
}

// Catches: a user's part that only one of the two files has; one that stays when its entry is
// removed; a part that cannot be merged and keeps containerd from starting, or fails silently.
TEST_F(RegistriesControllerTest, TheUsersPartIsMergedIntoTheSystems) {
  parts = {"a", "b"};
  run();
  EXPECT_EQ("1", tree.get("/cri/conf.d/x"));
  EXPECT_EQ("1+a+b", tree.get("/cri/conf.d/cri.toml"));
  EXPECT_EQ("a\nb", tree.get("/cri/conf.d/20-customization.part"));
  EXPECT_EQ(0600u, tree.mode("/cri/conf.d/cri.toml"));
  broken = true;
  content = "2"_kj;
  auto failure = kj::runCatchingExceptions([this]() { run(); });
  EXPECT_THAT(messageOf(KJ_ASSERT_NONNULL(failure)).cStr(),
              HasSubstr("/etc/cri/conf.d/20-customization.part of machine.files: no process"));
  EXPECT_EQ("2", tree.get("/cri/conf.d/x"));
  EXPECT_EQ("(none)", tree.get("/cri/conf.d/cri.toml"));
  broken = false;
  parts.clear();
  run();
  EXPECT_EQ("(none)", tree.get("/cri/conf.d/20-customization.part"));
}

// Catches: entries for other files that are taken for containerd's; a system's part that the checks
// of the config do not know (common/config/rules/containerd-part.cc), so that a valid part is not
// merged.
TEST(ContainerdParts, AreMergedIntoTheRenderedFile) {
  kj::StringPtr text =
      "machine:\n  files:\n"
      "    - {op: create, path: /etc/cri/conf.d/20-customization.part, content: "
      "'plugins.\"io.containerd.grpc.v1.cri\".registry.configs.\"[fd00::1]:5000\".auth.auth = "
      "\"eDp5\"'}\n"
      "    - {op: create, path: /var/cri/conf.d/20-customization.part, content: x}\n"
      "    - {op: append, path: /etc/cri/conf.d/20-customization.part, content: "
      "'plugins.\"io.containerd.grpc.v1.cri\".sandbox_image = \"mine\"'}\n"
      "  registries:\n    config:\n      \"[fd00::1]:5000\": {auth: {auth: dTpw}}\n";
  auto parsed = config::parse(text.asArray(), "test");
  auto machine = parsed.get().getMachine();
  auto fragments = containerdParts(machine);
  ASSERT_EQ(2u, fragments.size());
  config::ContainerdPart part;
  for (auto& fragment : fragments) {
    for (auto& mistake : part.add(fragment.asArray())) ADD_FAILURE() << mistake.message.cStr();
  }
  auto files = registryFiles(machine.getRegistries(), "/f", OomScores::kNotLower);
  auto merged = std::string(part.over(systemPart(files).asArray()).cStr());
  EXPECT_EQ(
      "version = 2\n\n"
      "[plugins.\"io.containerd.grpc.v1.cri\"]\n"
      "restrict_oom_score_adj = true\nsandbox_image = \"mine\"\n\n"
      "[plugins.\"io.containerd.grpc.v1.cri\".cni]\n"
      "bin_dir = \"/opt/cni/bin\"\nconf_dir = \"/etc/cni/net.d\"\n\n"
      "[plugins.\"io.containerd.grpc.v1.cri\".registry]\n"
      "config_path = \"/f/certs.d\"\n\n"
      "[plugins.\"io.containerd.grpc.v1.cri\".registry.configs]\n"
      "\"[fd00::1]:5000\".auth.auth = \"eDp5\"\n",
      merged);
}

struct HostsTest : public StoreTest {
  ~HostsTest() noexcept override {}
  std::vector<std::string> written;
  kj::Vector<HostLine> entries;
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  ControllerRuntime runtime{store, [](kj::StringPtr) {}, timer, clock, [] { return 0.5; }};

  void addresses(kj::StringPtr id, std::initializer_list<kj::StringPtr> list) {
    putRecord<rpc::NodeAddressSpec>(store, id, [&](auto spec) {
      auto out = spec.initAddresses(list.size());
      unsigned i = 0;
      for (auto a : list) out.set(i++, a);
    });
  }
};

// Catches: a file that is written before there is a name, or again without a change; an address
// that the machine does not have any more; an entry of the config that is missing.
TEST_F(HostsTest, FollowNameAddressAndConfig) {
  runtime.add(kj::heap<HostsController>(
      [&](Store&) {
        kj::Vector<HostLine> copy;
        for (auto& e : entries) {
          auto& line = copy.add(HostLine{kj::str(e.address), {}});
          for (auto& n : e.names) line.names.add(kj::str(n));
        }
        return copy;
      },
      [&](kj::StringPtr content) { written.push_back(content.cStr()); }));
  scope.poll();
  EXPECT_EQ(0u, written.size());
  put("hostname", "m1");
  scope.poll();
  ASSERT_EQ(1u, written.size());
  EXPECT_THAT(written[0], HasSubstr("\n127.0.1.1 m1\n"));
  addresses("default", {"10.5.0.3"});
  addresses("current", {"10.5.0.2", "10.5.0.3"});
  scope.poll();
  EXPECT_THAT(written.back(), HasSubstr("\n10.5.0.3 m1\n"));
  addresses("current", {"10.5.0.2"});
  scope.poll();
  EXPECT_THAT(written.back(), HasSubstr("\n10.5.0.2 m1\n"));
  auto& line = entries.add(HostLine{kj::str("10.9.0.1"), {}});
  line.names.add(kj::str("registry.example"));
  line.names.add(kj::str("registry"));
  runtime.poke("network.HostsController");
  scope.poll();
  EXPECT_THAT(written.back(),
              testing::EndsWith("ip6-allrouters\n10.9.0.1 registry.example registry\n"));
  auto count = written.size();
  runtime.poke("network.HostsController");
  scope.poll();
  EXPECT_EQ(count, written.size());
}

}  // namespace
}  // namespace talos::machined
