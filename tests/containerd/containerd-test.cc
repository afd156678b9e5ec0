// The files that machined writes for machine.registries, read by containerd 1.7 itself: the merged
// configuration, and where a pull goes.
#include "tests/containerd/containerd-fixture.h"

namespace talos::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

// Catches: a file that containerd does not take, a section that another file of ours or a user's
// file for something else replaces, credentials under a name that is not looked up.
TEST_F(ContainerdTest, TheMergedConfigurationHasAllOfIt) {
  configure(
      "    config:\n      a.example:5000: {auth: {username: \"u\\\"x\", password: p}}\n"
      "      docker.io: {auth: {identityToken: t}}\n"
      "      \"[fd00::1]:5000\": {auth: {username: six, password: p}}");
  put("user/metrics.toml", "[metrics]\n  address = \"0.0.0.0:11234\"\n");
  auto dump = merged();
  EXPECT_THAT(dump, HasSubstr("config_path = \"" + path("cri/certs.d") + "\""));
  EXPECT_THAT(dump, HasSubstr("registry.configs.\"a.example:5000\".auth]"));
  EXPECT_THAT(dump, HasSubstr("username = \"u\\\"x\""));
  EXPECT_THAT(dump, HasSubstr("registry.configs.\"registry-1.docker.io\".auth]"));
  EXPECT_THAT(dump, HasSubstr("identitytoken = \"t\""));
  EXPECT_THAT(dump, HasSubstr("registry.configs.\"[fd00::1]:5000\".auth]"));
  EXPECT_THAT(dump, HasSubstr("address = \"0.0.0.0:11234\""));
  // A user's file with the plugin's section replaces ours, as documented.
  put("user/own.toml",
      "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\n  sandbox_image = \"x\"\n");
  dump = merged();
  EXPECT_THAT(dump, HasSubstr("sandbox_image = \"x\""));
  EXPECT_THAT(dump, Not(HasSubstr(path("cri/certs.d"))));
}

// Catches: a user's part that replaces the section of the plugin, so that mirrors and credentials
// are not used; a merged file that containerd reads before the system's, or does not start with.
TEST_F(ContainerdTest, TheUsersPartIsMerged) {
  configure(
      "    config:\n      a.example:5000: {auth: {username: u, password: p}}\n"
      "      \"[fd00::1]:5000\": {auth: {username: six, password: p}}",
      machined::OomScores::kAny,
      "disabled_plugins = [\"io.containerd.snapshotter.v1.zfs\"]\n"
      "[plugins]\n  [plugins.\"io.containerd.grpc.v1.cri\"]\n"
      "    enable_unprivileged_ports = true\n    sandbox_image = 'mine:1'\n"
      "[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.own]\n"
      "  runtime_type = \"io.containerd.runc.v2\"\n"
      "[metrics]\n  address = \"127.0.0.1:11234\"\n");
  auto dump = merged();
  EXPECT_THAT(dump, HasSubstr("enable_unprivileged_ports = true"));
  EXPECT_THAT(dump, HasSubstr("sandbox_image = \"mine:1\""));
  EXPECT_THAT(dump, HasSubstr("containerd.runtimes.own]"));
  EXPECT_THAT(dump, HasSubstr("address = \"127.0.0.1:11234\""));
  EXPECT_THAT(dump, HasSubstr("config_path = \"" + path("cri/certs.d") + "\""));
  EXPECT_THAT(dump, HasSubstr("registry.configs.\"a.example:5000\".auth]"));
  EXPECT_THAT(dump, HasSubstr("registry.configs.\"[fd00::1]:5000\".auth]"));
  start();
  EXPECT_THAT(stateOfCri(), HasSubstr(" ok")) << daemon->err();
}

// Catches: a setting that containerd does not accept, or that hides the registries.
TEST_F(ContainerdTest, OomScoresAreRestrictedWhereTheyHaveToBe) {
  configure("    config:\n      a.example: {auth: {auth: dTpw}}", machined::OomScores::kNotLower);
  EXPECT_THAT(merged(), AllOf(HasSubstr("restrict_oom_score_adj = true"),
                              HasSubstr("registry.configs.\"a.example\".auth]")));
  configure("    mirrors: {}");
  EXPECT_THAT(merged(), HasSubstr("restrict_oom_score_adj = false"));
}

// Catches: a plugin that does not start with our files (mirrors and config_path exclude each
// other), even without any registries.
TEST_F(ContainerdTest, ThePluginStarts) {
  for (auto yaml : {"    mirrors: {}",
                    "    mirrors: {'*': {endpoints: [\"http://m\"]}}\n"
                    "    config: {m2: {tls: {insecureSkipVerify: true}, auth: {auth: dTpw}}}"}) {
    configure(yaml);
    start();
    EXPECT_THAT(stateOfCri(), HasSubstr(" ok")) << daemon->err();
    daemon.reset();
  }
}

// Catches: an endpoint that is called with another path or in another order, the mirror of all
// others used although there is one of this name, a slash at the end that breaks the path.
TEST_F(ContainerdTest, MirrorsAreAskedAsTheConfigSays) {
  ModelRegistry exact{{}}, others{{}}, deep{{.root = "/a/b/"}}, empty{{.root = "/nothing"}};
  configure("    mirrors:\n      docker.io: {endpoints: [\"" + exact.url() + "/\"]}\n" +
            "      deep.example: {endpoints: [\"" + empty.url() + "\", \"" + deep.url() +
            "/a/b/\"]}\n      '*': {endpoints: [\"" + others.url() + "\"]}");
  start();
  EXPECT_EQ("", fetch("docker.io/library/x:1"));
  EXPECT_THAT(exact.asked(), Contains(StartsWith("/v2/library/x/manifests/1")));
  EXPECT_THAT(others.asked(), IsEmpty());
  EXPECT_EQ("", fetch("some.example:5000/y:2"));
  EXPECT_THAT(others.asked(), Contains(StartsWith("/v2/y/manifests/2?ns=some.example")));
  EXPECT_EQ("", fetch("deep.example/z:3"));
  EXPECT_THAT(empty.asked(), Contains(StartsWith("/v2/z/manifests/3")));
  EXPECT_THAT(deep.asked(), Contains(StartsWith("/a/b/z/manifests/3")));
  EXPECT_THAT(deep.asked(), Not(Contains(HasSubstr("/v2"))));
  // Live: the next pull reads the files again.
  configure("    mirrors:\n      some.example:5000: {endpoints: [\"" + exact.url() + "\"]}");
  EXPECT_EQ("", fetch("some.example:5000/w:4"));
  EXPECT_THAT(exact.asked(), Contains(StartsWith("/v2/w/manifests/4")));
  EXPECT_THAT(others.asked(), Not(Contains(HasSubstr("/w/"))));
}

// Catches: a file that containerd does not read because of the brackets of an address, and with it
// no mirror at all; endpoints of such a file in another order.
TEST_F(ContainerdTest, AMirrorHasAnIpv6Address) {
  ModelRegistry empty{{.root = "/nothing"}}, six{{.address = "::1"}}, last{{}};
  configure("    mirrors:\n      a.example: {endpoints: [\"" + empty.url() + "\", \"" + six.url() +
            "\", \"" + last.url() + "\"]}");
  start();
  EXPECT_EQ("", fetch("a.example/x:1"));
  EXPECT_THAT(empty.asked(), Contains(StartsWith("/v2/x/manifests/1")));
  EXPECT_THAT(six.asked(), Contains(StartsWith("/v2/x/manifests/1")));
  EXPECT_THAT(last.asked(), IsEmpty());
}

// Catches: an authority or a client's certificate that is not used, for a mirror and for a registry
// itself; TLS that is not checked although the config does not say so.
TEST_F(ContainerdTest, TlsIsThatOfTheHost) {
  ModelRegistry tls{{.kind = ModelRegistry::Kind::kTls, .authority = authority}};
  ModelRegistry mutual{{.kind = ModelRegistry::Kind::kMutualTls, .authority = authority}};
  auto mirrors = "    mirrors:\n      a.example: {endpoints: [\"" + tls.url() +
                 "\"]}\n      b.example: {endpoints: [\"" + mutual.url() + "\"]}\n";
  configure(mirrors);
  start();
  EXPECT_THAT(fetch("a.example/x:1"), HasSubstr("certificate"));
  EXPECT_THAT(tls.asked(), IsEmpty());

  auto own = pki::issue(authority.certificate, authority.key, {});
  auto ca = "ca: " + base64(authority.certificate);
  configure(mirrors + "    config:\n      " + tls.host() + ":\n        tls: {" + ca + "}\n      " +
            mutual.host() + ":\n        tls:\n          " + ca +
            "\n          clientIdentity: {crt: " + base64(own.certificate) +
            ", key: " + base64(own.key) + "}\n");
  EXPECT_EQ("", fetch("a.example/x:1"));
  EXPECT_THAT(tls.asked(), Contains(StartsWith("/v2/x/manifests/1")));
  EXPECT_EQ("", fetch("b.example/x:1"));
  EXPECT_EQ("", fetch(mutual.host() + "/y:1")) << "the registry itself";
  EXPECT_THAT(mutual.asked(), Contains(StartsWith("/v2/y/manifests/1")));

  ModelRegistry unknown{{.kind = ModelRegistry::Kind::kTls, .authority = authority}};
  ModelRegistry others{{.root = "/nothing"}};
  configure("    mirrors:\n      '*': {endpoints: [\"" + others.url() +
            "\"]}\n    config:\n      " + unknown.host() +
            ":\n        tls: {insecureSkipVerify: true}");
  EXPECT_EQ("", fetch(unknown.host() + "/z:1"));
  EXPECT_THAT(others.asked(), Contains(StartsWith("/v2/z/manifests/1")))
      << "the mirror comes first";
  EXPECT_THAT(unknown.asked(), Contains(StartsWith("/v2/z/manifests/1")));
}

}  // namespace
}  // namespace talos::test
