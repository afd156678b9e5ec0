// The order of sources, and the messages of sources without a config.
#include "machined/config/node-sources.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/encoding.h>

#include "common/base/error.h"
#include "common/testing/test-tree.h"
#include "common/testing/test-zip.h"
#include "common/tls/pki.h"
#include "machined/confined/parser-client/test-web-server.h"
#include "machined/confined/parser/test-direct-foreign.h"
#include "machined/confined/parser/test-hypervisor.h"
#include "machined/disk/volumes/test-volumes.h"

namespace talos::machined {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr auto kNowhere =
    "none: kernel parameter talos.config is missing or \"none\", and no volume has a config";

class SourcesTest : public testing::Test {
 protected:
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  UvLoop uv{io.unixEventPort, timer};
  TestVolumes volumes;
  DirectForeign foreign;
  TestTree tree;
  std::vector<std::string> said;
  kj::StringPtr userData, vendor = "", serial = "";
  std::function<const char*()> hostname = [] { return "n1"; };
  kj::String bundle = tree.at("bundle.crt");

  ~SourcesTest() noexcept override {}

  NodeConfigSources open(const KernelArguments& arguments, kj::StringPtr platform) {
    return NodeConfigSources(NodeConfigSources::Dependencies{
        .arguments = arguments,
        .platform = platform,
        .userData = [this]() -> kj::Maybe<kj::Array<char>> {
          if (userData == nullptr) return nullptr;
          return kj::heapArray(userData.asArray());
        },
        .variables = [this]() { return UrlVariables{.hostname = kj::str(hostname())}; },
        .firmware =
            [this]() {
              platforms::Firmware firmware;
              firmware.vendor = kj::str(vendor);
              firmware.serial = kj::str(serial);
              return firmware;
            },
        .volumes = volumes,
        .uv = uv,
        .network = io.provider->getNetwork(),
        .sockets = *io.lowLevelProvider,
        .timer = timer,
        .clock = kj::systemPreciseCalendarClock(),
        .random = []() { return 0.0; },
        .say = [this](kj::StringPtr line) { said.push_back(line.cStr()); },
        .resolve = [](kj::StringPtr host) -> kj::Promise<kj::Array<kj::String>> {
          return kj::arr(kj::str(host));
        },
        .foreign = foreign,
        .bundle = bundle});
  }
  // Returns the names that were cleared, or "cannot".
  std::string cleared(kj::StringPtr platform) {
    KernelArguments arguments(""_kj.asArray());
    auto sources = open(arguments, platform);
    if (!sources.clearable()) return "cannot";
    return kj::strArray(sources.clear().wait(io.waitScope), " ").cStr();
  }
  // Returns "from: text", "none: where", or "InvalidArgument: why".
  std::string find(kj::StringPtr commandLine, kj::StringPtr platform = "metal",
                   kj::Duration limit = 9 * kj::SECONDS) {
    KernelArguments arguments(commandLine.asArray());
    auto sources = open(arguments, platform);
    try {
      auto found = sources.find(limit).wait(io.waitScope);
      KJ_IF_MAYBE (none, found.tryGet<NoConfig>()) return kj::str("none: ", none->where).cStr();
      auto& config = found.get<FoundConfig>();
      return kj::str(config.from, ": ", config.text).cStr();
    } catch (const kj::Exception& e) {
      return kj::str(nameOf(kindOf(e)), ": ", messageOf(e)).cStr();
    }
  }
};

// Catches: a volume that is read although the command line names a source, and a volume that is not
// read although the command line names none; `none` taken for a source.
TEST_F(SourcesTest, Precedence) {
  volumes.file("metal-iso", "config.yaml", "machine: {}");
  volumes.file("cidata", "user-data", "#cloud-config\nmachine:\n");
  EXPECT_EQ("volume metal-iso (/dev/sr0): config.yaml: machine: {}",
            find("talos.config=metal-iso"));
  EXPECT_THAT(volumes.looked, ElementsAre("metal-iso 9 s"));
  auto cidata = "volume cidata (/dev/sr0): user-data: #cloud-config\nmachine:\n";
  EXPECT_EQ(cidata, find("a=b"));
  EXPECT_EQ(cidata, find("talos.config=none"));
  EXPECT_EQ(cidata, find("", "aws"));
}

// Catches: a machine without any source that waits for a source, or a machine that does not wait
// for its named source.
TEST_F(SourcesTest, NoSource) {
  EXPECT_EQ(kNowhere, find(""));
  EXPECT_THAT(volumes.looked, ElementsAre("cidata 1 s"));
  EXPECT_THAT(find("", "nocloud"),
              HasSubstr("Unavailable: volume cidata: no such volume found within 9 s"));
  EXPECT_EQ("cidata 9 s", volumes.looked.back());
  EXPECT_THAT(find("talos.config=metal-iso"),
              HasSubstr("Unavailable: volume metal-iso: no such volume found within 9 s"));
}

// Catches: a platform that is not queried, without a message; a platform name that is not valid.
TEST_F(SourcesTest, Platforms) {
  EXPECT_EQ(find("", "azure"), "none: no disc has ovf-env.xml (Microsoft Azure)");
  EXPECT_THAT(volumes.looked, ElementsAre("cidata 1 s", "disc with ovf-env.xml 9 s"));
  EXPECT_THAT(said, ElementsAre(HasSubstr("the disc with ovf-env.xml (Microsoft Azure)")));
  EXPECT_THAT(find("", "amazon"), HasSubstr("InvalidArgument: talos.platform=amazon is not a "
                                            "platform; use one of metal, akamai, aws,"));
}

// Catches: a volume, or nothing, although the guest information of VMware is named; a missing error
// for the same name on another platform, which has no guest information.
TEST_F(SourcesTest, GuestInformation) {
  parse::TestHypervisor hypervisor;
  foreign.port = hypervisor.port();
  EXPECT_EQ(find("talos.config=guestinfo", "vmware"),
            "none: the guest information (VMware) has no machine config, and no disc has "
            "ovf-env.xml (VMware)");
  EXPECT_THAT(volumes.looked, ElementsAre("disc with ovf-env.xml 5 s"));
  volumes.looked.clear();
  hypervisor.variables["guestinfo.talos.config"] = "bWFjaGluZToge30K";
  volumes.file("cidata", "user-data", "machine:\n");
  auto found = "the guest information (VMware): machine: {}\n";
  EXPECT_EQ(find("talos.config=guestinfo", "vmware"), found);
  EXPECT_THAT(volumes.looked, IsEmpty());
  volumes.remove("cidata");
  EXPECT_EQ(find("", "vmware"), found);
  for (auto platform : {"metal"_kj, "aws"_kj}) {
    EXPECT_EQ(
        find("talos.config=guestinfo", platform),
        kj::str("InvalidArgument: kernel parameter talos.config=guestinfo: platform ", platform,
                " has no guest information of VMware; use talos.platform=vmware with it")
            .cStr());
  }
}

// Catches: a config that stays in the guest information, where every process of the machine can
// read it; an error on a hypervisor without guest information.
TEST_F(SourcesTest, ClearsTheGuestInformation) {
  parse::TestHypervisor hypervisor;
  foreign.port = hypervisor.port();
  hypervisor.variables["guestinfo.talos.config"] = "bWFjaGluZToge30K";
  EXPECT_EQ(cleared("metal"), "cannot");
  EXPECT_EQ(hypervisor.variables["guestinfo.talos.config"], "bWFjaGluZToge30K");
  EXPECT_EQ(cleared("vmware"), "guestinfo.talos.config");
  EXPECT_EQ(hypervisor.variables["guestinfo.talos.config"], " ");
  EXPECT_EQ(cleared("vmware"), "");
  foreign.port = [](parse::PortRegisters&) {
    fail(ErrorKind::kFailedPrecondition, "this machine is not on VMware");
  };
  EXPECT_EQ(cleared("vmware"), "");
}

// Catches: a volume with other content whose message lacks its name, or is missing.
TEST_F(SourcesTest, VolumesWithSomethingElse) {
  volumes.file("metal-iso", "readme", "x");
  volumes.file("cidata", "user-data", "users: []\n# machine: no\n");
  EXPECT_EQ("Unavailable: volume metal-iso (/dev/sr0) has no file config.yaml",
            find("talos.config=metal-iso"));
  EXPECT_EQ(
      "Unavailable: volume cidata (/dev/sr0): user-data is not a machine config: it has no key "
      "\"machine\"",
      find(""));
  // A byte order mark and quotes are accepted.
  for (auto text : {"\xef\xbb\xbfmachine: {}\n", "# x\n\"machine\": {}\n", "'machine' : {}\n"}) {
    volumes.volumes.clear();
    volumes.file("cidata", "user-data", text);
    EXPECT_EQ(kj::str("volume cidata (/dev/sr0): user-data: ", text).cStr(), find(""));
  }
  for (auto text : {"xmachine: {}\n", "machines: {}\n", "  machine: {}\n", "machine"}) {
    volumes.volumes.clear();
    volumes.file("cidata", "user-data", text);
    EXPECT_THAT(find(""), HasSubstr("has no key \"machine\"")) << text;
  }
  volumes.volumes.clear();
  volumes.file("cidata", "meta-data", "x");
  volumes.file("metal-iso", "config.yaml", "<html>");
  EXPECT_EQ("Unavailable: volume cidata (/dev/sr0): user-data is missing", find(""));
  EXPECT_THAT(find("talos.config=metal-iso"),
              HasSubstr("metal-iso (/dev/sr0): config.yaml: the server sent a web page"));
  volumes.broken =
      error(ErrorKind::kUnavailable, "cannot mount /dev/sr0 (iso9660): Input/output error");
  EXPECT_EQ("Unavailable: volume metal-iso: cannot mount /dev/sr0 (iso9660): Input/output error",
            find("talos.config=metal-iso"));
}

// Catches: a node that waits for ever, or blames the volume, because Proxmox VE has written user
// data for cloud-init to it; a volume that is read twice; a volume that hides the platform, or is
// not named.
TEST_F(SourcesTest, UserDataForCloudInit) {
  volumes.file("cidata", "user-data", "#cloud-config\nhostname: n1\n");
  constexpr auto kCloudInit =
      "volume cidata (/dev/sr0): user-data is for cloud-init (#cloud-config)";
  EXPECT_EQ(kj::str("none: ", kCloudInit).cStr(), find("", "nocloud"));
  EXPECT_THAT(volumes.looked, ElementsAre("cidata 9 s"));
  EXPECT_EQ(kj::str("none: kernel parameter talos.config is missing or \"none\", and ", kCloudInit)
                .cStr(),
            find(""));
  EXPECT_EQ(kj::str("none: no disc has ovf-env.xml (Microsoft Azure), and ", kCloudInit).cStr(),
            find("", "azure"));
  volumes.remove("cidata");
  volumes.file("cidata", "user-data", " \n");
  EXPECT_EQ("none: volume cidata (/dev/sr0): user-data is empty", find("", "nocloud"));

  volumes.remove("cidata");
  volumes.file("cidata", "user-data", "#cloud-config\nhostname: n1\n");
  volumes.looked.clear();
  TestServer server(io, ok("machine: {}"));
  auto seed = kj::str("ds=nocloud;s=http://127.0.0.1:", server.port());
  serial = seed;
  EXPECT_EQ(kj::str("http://127.0.0.1:", server.port(), "/user-data: machine: {}").cStr(),
            find("", "nocloud"));
  EXPECT_THAT(volumes.looked, ElementsAre("cidata 1 s"));
  TestServer empty(io, ok(""));
  auto other = kj::str("ds=nocloud;s=http://127.0.0.1:", empty.port());
  serial = other;
  EXPECT_EQ(kj::str("none: http://127.0.0.1:", empty.port(), "/ (NoCloud) has no user data, and ",
                    kCloudInit)
                .cStr(),
            find("", "nocloud"));
}

// Catches: a server in the serial number that is ignored because it is not a web server.
TEST_F(SourcesTest, ServerOfTheSerialNumber) {
  serial = "ds=nocloud;s=ftp://x/";
  EXPECT_EQ(
      find("", "nocloud"),
      "InvalidArgument: serial number: \"ftp://x/\" is not a server; use http:// or https://");
}

// Catches: a request for a config without the machine's name, or no further request, because the
// host name came after the first attempt.
TEST_F(SourcesTest, AVariableThatIsNotKnownYet) {
  constexpr kj::StringPtr kUrl = "talos.config=http://127.0.0.1:1/c?h=${hostname}"_kj;
  hostname = [] { return ""; };
  EXPECT_EQ(find(kUrl, "metal", 500 * kj::MILLISECONDS),
            "Unavailable: kernel parameter talos.config=http://127.0.0.1:1/c: ${hostname} of this "
            "machine is not known");
  unsigned looks = 0;
  hostname = [&looks] { return looks++ == 0 ? "" : "n1"; };
  EXPECT_EQ(find(kUrl, "metal", 1500 * kj::MILLISECONDS)
                .find("Unavailable: cannot fetch the machine config from http://127.0.0.1:1/c"),
            0u);
  EXPECT_EQ(looks, 2u);
  EXPECT_EQ(find("talos.config=http://127.0.0.1/c?h=${host}").find("InvalidArgument: "), 0u);
}

// Catches: a file that is read through a folder's name, a missing file that is not named.
TEST_F(SourcesTest, Files) {
  tree.file("config.yaml", "machine: {}");
  auto url = kj::str("file://", tree.root, "/config.yaml");
  EXPECT_EQ(kj::str(url, ": machine: {}").cStr(), find(kj::str("talos.config=", url)));
  EXPECT_THAT(find(kj::str("talos.config=", url, "x")), HasSubstr("config.yamlx: no such file"));
  EXPECT_THAT(find("talos.config=file:///nowhere/x"),
              HasSubstr("file:///nowhere/x: cannot open /nowhere/: No such"));
  EXPECT_THAT(find(kj::str("talos.config=file://", tree.root)), HasSubstr("is not a regular file"));
  EXPECT_THAT(volumes.looked, IsEmpty());
}

// Catches: a container that reads its host's kernel parameters or disks.
TEST_F(SourcesTest, Container) {
  volumes.file("cidata", "user-data", "machine:");
  EXPECT_EQ("none: the launcher of this container gave no USERDATA",
            find("talos.config=http://127.0.0.1:1/", "container"));
  EXPECT_THAT(volumes.looked, IsEmpty());
  auto encoded = kj::encodeBase64("machine: {}"_kj.asBytes());
  userData = encoded;
  EXPECT_EQ("environment variable USERDATA: machine: {}", find("", "container"));
  auto bytes = zip("machine: {}");
  auto packed = kj::encodeBase64(kj::StringPtr(bytes.data(), bytes.size()).asBytes());
  userData = packed;
  EXPECT_EQ("environment variable USERDATA: machine: {}", find("", "container"));
  userData = "!"_kj;
  EXPECT_THAT(find("", "container"),
              HasSubstr("InvalidArgument: environment variable USERDATA is not base64"));
}

// Catches: public CAs that are trusted beside the named CA; a bundle that is read although it is
// not needed; a missing bundle that is not named.
TEST_F(SourcesTest, NamedCaIsTheOnlyTrustedOne) {
  auto authority = pki::makeAuthority({.organization = "private"});
  auto pair = pki::issue(authority.certificate, authority.key,
                         {.addresses = kj::arr(kj::str("127.0.0.1"))});
  kj::TlsKeypair keys{kj::TlsPrivateKey(kj::StringPtr(pki::toPkcs8(pair.key))),
                      kj::TlsCertificate(pair.certificate)};
  kj::TlsContext::Options options;
  options.useSystemTrustStore = false;
  options.defaultKeypair = keys;
  kj::TlsContext tls(kj::mv(options));
  TestServer open(io, ok("machine: {}"));
  TestServer server(io, ok("machine: {}"), tls);
  auto url = kj::str("https://127.0.0.1:", server.port(), "/c");
  auto parameter = kj::str("talos.config=", url);
  // The search ends before its first pause: this test has no clock to advance.
  auto find = [this](kj::StringPtr line) {
    return SourcesTest::find(line, "metal", 900 * kj::MILLISECONDS);
  };
  auto good = kj::str(url, ": machine: {}");

  EXPECT_THAT(find(kj::str("talos.config=http://127.0.0.1:", open.port(), "/")),
              HasSubstr("/: machine: {}"));
  EXPECT_THAT(find(parameter), HasSubstr("Unavailable: https needs a trusted CA: there is no "));
  tree.file("bundle.crt",
            kj::str("# comment\n", pki::makeAuthority({.organization = "a"}).certificate,
                    authority.certificate));
  EXPECT_EQ(good.cStr(), find(parameter));
  auto other = kj::encodeBase64(pki::makeAuthority({.organization = "b"}).certificate.asBytes());
  EXPECT_THAT(find(kj::str(parameter, " talos.config.ca=", other)), HasSubstr("certificate"));
  auto own = kj::encodeBase64(authority.certificate.asBytes());
  tree.file("bundle.crt", "nonsense");
  EXPECT_THAT(find(parameter), HasSubstr("no CA certificate"));
  EXPECT_EQ(good.cStr(),
            find(kj::str(parameter, " talos.config.ca=", other, " talos.config.ca=", own)));
  EXPECT_THAT(
      find(kj::str(parameter, " talos.config.ca=?")),
      HasSubstr("InvalidArgument: kernel parameter talos.config.ca, number 1: not valid base64"));
}

// Catches: a machine of a cloud that is treated as one without a platform, without a message; a
// cloud that is guessed.
TEST_F(SourcesTest, FirmwareOfAPlatform) {
  EXPECT_EQ(kNowhere, find(""));
  EXPECT_THAT(said, IsEmpty());
  vendor = "Hetzner";
  EXPECT_EQ(kNowhere, find(""));
  EXPECT_THAT(said,
              ElementsAre("the firmware is that of Hetzner Cloud; talos.platform=hcloud would "
                          "ask it for the machine config"));
}

}  // namespace
}  // namespace talos::machined
