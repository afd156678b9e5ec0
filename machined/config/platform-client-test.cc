// Tests with a model of a metadata service: a web server in this process, with the paths of the
// real services.
#include "machined/config/platform-client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/encoding.h>

#include <map>

#include "common/base/error.h"
#include "common/testing/test-zip.h"
#include "machined/confined/parser-client/test-web-server.h"
#include "machined/confined/parser/test-direct-foreign.h"
#include "machined/confined/parser/test-hypervisor.h"
#include "machined/disk/volumes/test-volumes.h"

namespace talos::machined {
namespace {

using platforms::Platform;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const auto kNothing = answer("404 Not Found", "Content-Length: 0\r\n", "");

class PlatformClientTest : public testing::Test {
 protected:
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  std::vector<std::string> said;
  TestVolumes volumes;
  DirectForeign foreign;
  FetchDependencies fetch{.network = io.provider->getNetwork(),
                          .timer = timer,
                          .clock = kj::systemPreciseCalendarClock(),
                          .random = []() { return 0.0; },
                          .say = [this](kj::StringPtr line) { said.push_back(line.cStr()); },
                          .resolve = [](kj::StringPtr host) -> kj::Promise<kj::Array<kj::String>> {
                            return kj::arr(kj::str(host));
                          },
                          .authorities = []() -> kj::Promise<kj::String> { return kj::str(); },
                          .foreign = foreign,
                          .sockets = *io.lowLevelProvider};
  // Answers by method and path; other paths are not found.
  std::map<std::string, TestServer::Behaviour> service;
  TestServer server{io, [this](kj::AsyncIoStream& stream) -> kj::Promise<void> {
                      auto line = server.asked.back();
                      auto found = service.find(line.substr(0, line.rfind(' ')));
                      auto behaviour = found == service.end() ? kNothing : found->second;
                      co_await behaviour(stream);
                    }};
  kj::String place = kj::str("http://127.0.0.1:", server.port());

  ~PlatformClientTest() noexcept override {}

  Platform at(const Platform& platform) {
    auto copy = platform;
    copy.server = place;
    return copy;
  }
  template <typename T>
  T wait(kj::Promise<T> promise) {
    while (!promise.poll(io.waitScope)) {
      timer.advanceTo(KJ_ASSERT_NONNULL(timer.nextEvent(), "nobody waits for anything"));
    }
    return promise.wait(io.waitScope);
  }
  // The result of the search: the config, "none", or the error. If there is no config, `where` has
  // the place.
  std::string where;
  std::string config(const Platform& platform, kj::Duration limit = 20 * kj::SECONDS) {
    PlatformClient client(platform, "", fetch, volumes);
    try {
      auto result = wait(client.config(limit));
      KJ_IF_MAYBE (found, result.tryGet<FoundConfig>()) {
        return std::string(found->text.begin(), found->text.size());
      }
      where = result.get<NoConfig>().where.cStr();
      return "none";
    } catch (const kj::Exception& e) {
      return kj::str(nameOf(kindOf(e)), ": ", messageOf(e)).cStr();
    }
  }
  // Returns region, zone and identifier, or the error.
  std::string facts(const Platform& platform) {
    PlatformClient client(platform, "", fetch, volumes);
    try {
      auto known = wait(client.facts());
      auto metadata = known.get().getMetadata();
      return kj::str(metadata.getRegion(), " ", metadata.getZone(), " ", metadata.getProviderId())
          .cStr();
    } catch (const kj::Exception& e) {
      return kj::str(nameOf(kindOf(e)), ": ", messageOf(e)).cStr();
    }
  }
  void amazon() {
    service["PUT /latest/api/token"] = ok("dG9rZW4=");
    service["GET /latest/meta-data/instance-id"] = ok("i-1");
    service["GET /latest/meta-data/placement/availability-zone"] = ok("eu-1a");
    service["GET /latest/meta-data/placement/region"] = ok("eu-1");
    service["GET /latest/user-data"] = ok("machine: {}\n");
  }
};

// Catches: a request without the token, a new token for each request, a missing token lifetime; a
// missing key that is treated as an error.
TEST_F(PlatformClientTest, TokenIsRequestedOnceAndSentWithEachRequest) {
  amazon();
  EXPECT_EQ(facts(at(platforms::kAws)), "eu-1 eu-1a aws:///eu-1a/i-1");
  ASSERT_EQ(server.asked.size(), 11u);
  EXPECT_EQ(server.asked[0], "PUT /latest/api/token HTTP/1.1");
  EXPECT_THAT(server.heads[0], HasSubstr("X-aws-ec2-metadata-token-ttl-seconds: 21600\r\n"));
  for (size_t i = 1; i < server.heads.size(); ++i) {
    EXPECT_THAT(server.heads[i], HasSubstr("X-aws-ec2-metadata-token: dG9rZW4=\r\n"));
  }
  EXPECT_EQ(config(at(platforms::kAws)), "machine: {}\n");
  EXPECT_TRUE(said.empty());
}

// Catches: an older service that is treated as down; an expired token that is used for ever.
TEST_F(PlatformClientTest, NoTokenAndAnOldOne) {
  amazon();
  service["PUT /latest/api/token"] = answer("403 Forbidden", "Content-Length: 0\r\n", "");
  EXPECT_EQ(config(at(platforms::kAws)), "machine: {}\n");
  EXPECT_THAT(server.heads.back(), Not(HasSubstr("X-aws-ec2-metadata-token")));

  amazon();
  unsigned tokens = 0;
  service["PUT /latest/api/token"] = [&](kj::AsyncIoStream& stream) {
    return ok("token-" + std::to_string(++tokens))(stream);
  };
  service["GET /latest/meta-data/placement/region"] = [&](kj::AsyncIoStream& stream) {
    bool good = server.heads.back().find("token-2") != std::string::npos;
    return (good ? ok("eu-1") : answer("401 Unauthorized", "Content-Length: 0\r\n", ""))(stream);
  };
  EXPECT_EQ(facts(at(platforms::kAws)), "eu-1 eu-1a aws:///eu-1a/i-1");
  EXPECT_EQ(tokens, 2u);
}

// Catches: maintenance because the service was down; an endless wait because there is no config.
TEST_F(PlatformClientTest, NothingIsNotAnError) {
  auto vultr = at(platforms::kVultr);
  EXPECT_EQ(config(vultr), "none");
  EXPECT_EQ(where, kj::str(place, " (Vultr) has no user data").cStr());
  service["GET /latest/user-data"] = ok("");
  EXPECT_EQ(config(vultr), "none");
  service["GET /latest/user-data"] = ok(" \n\n");
  EXPECT_EQ(config(vultr), "none");
  service["GET /latest/user-data"] = ok("#cloud-config\nhostname: n1\n");
  EXPECT_EQ(config(vultr), "none");
  EXPECT_EQ(where, kj::str(place,
                           "/latest/user-data (Vultr) has no machine config; it is empty, or for "
                           "another system")
                       .cStr());
  EXPECT_TRUE(said.empty());

  service["GET /latest/user-data"] = answer("503 Busy", "Content-Length: 0\r\n", "");
  EXPECT_EQ(config(vultr), kj::str("Unavailable: no answer of the platform within 20 s: ", place,
                                   "/latest/user-data: the server answered 503 Busy")
                               .cStr());
  EXPECT_EQ(said.size(), 1u);
  unsigned attempts = 0;
  service["GET /latest/user-data"] = [&](kj::AsyncIoStream& stream) {
    return (++attempts < 3 ? answer("503 Busy", "Content-Length: 0\r\n", "")
                           : ok("machine: {}\n"))(stream);
  };
  EXPECT_EQ(config(vultr), "machine: {}\n");
}

// Catches: a service that redirects the node, and its token, to another server; a service that
// never answers; an invalid document; a fact that is not available yet.
TEST_F(PlatformClientTest, HostileServices) {
  auto vultr = at(platforms::kVultr);
  service["GET /v1.json"] =
      answer("302 Found", "Location: http://127.0.0.1:1/x\r\nContent-Length: 0\r\n", "");
  EXPECT_EQ(facts(vultr),
            kj::str("Unavailable: ", place, "/v1.json: the server answered 302 Found").cStr());
  service["GET /v1.json"] = [](kj::AsyncIoStream&) -> kj::Promise<void> { return kj::NEVER_DONE; };
  EXPECT_THAT(facts(vultr), HasSubstr("DeadlineExceeded"));
  service["GET /v1.json"] = ok("{\"a\": ");
  EXPECT_THAT(facts(vultr), HasSubstr("InvalidArgument: metadata:1:"));
  service["GET /v1.json"] = ok(std::string(5u << 20, ' '));
  EXPECT_THAT(facts(vultr), HasSubstr("the answer is larger than 4 MiB"));
  service["GET /v1.json"] = kNothing;
  EXPECT_EQ(facts(vultr),
            kj::str("Unavailable: ", place, "/v1.json: there is nothing, or nothing yet").cStr());
  service["GET /v1.json"] =
      ok("{\"hostname\": \"a\\u001b[2Jb\", \"region\": {\"regioncode\": \"r\"}}");
  EXPECT_EQ(facts(vultr), "r  vultr://");
}

// Catches: optional base64 that is treated as required, and the reverse.
TEST_F(PlatformClientTest, Encodings) {
  service["GET /hetzner/v1/userdata"] = ok("bWFjaGluZToge30K");
  EXPECT_EQ(config(at(platforms::kHetzner)), "machine: {}\n");
  service["GET /hetzner/v1/userdata"] = ok("machine: {}\n");
  EXPECT_EQ(config(at(platforms::kHetzner)), "machine: {}\n");
  service["GET /opc/v2/instance/metadata/user_data"] = ok("machine: {}\n");
  EXPECT_EQ(config(at(platforms::kOracle)), "none");
  EXPECT_THAT(server.heads.back(), HasSubstr("Authorization: Bearer Oracle\r\n"));
  service["PUT /v1/token"] = ok("[\"t-1\"]");
  service["GET /v1/user-data"] = ok("machine: {}\n");
  EXPECT_THAT(config(at(platforms::kAkamai)), HasSubstr("the user data is not base64"));
  EXPECT_THAT(server.heads.back(), HasSubstr("Metadata-Token: t-1\r\n"));
}

// Catches: the version of the first request in all requests, although the service does not know it.
TEST_F(PlatformClientTest, AnOlderVersion) {
  auto old = [&](std::string path, std::string body) {
    service["GET " + path + "?api-version=2021-12-13&format=json"] =
        answer("400 Bad Request", "Content-Length: 0\r\n", "");
    service["GET " + path + "?api-version=2019-06-01&format=json"] = ok(body);
  };
  old("/metadata/instance/compute",
      R"({"location":"W","zone":"1","resourceId":"/subscriptions/s/resourceGroups/G/x"})");
  old("/metadata/instance/network/interface", "[]");
  EXPECT_EQ(facts(at(platforms::kAzure)), "w w-1 azure:///subscriptions/s/resourceGroups/g/x");
  EXPECT_THAT(server.heads.back(), HasSubstr("Metadata: true\r\n"));
}

// Catches: a request for Scaleway's user data from a port of 1024 or more, a low port for other
// requests, a port in use that is not skipped.
TEST_F(PlatformClientTest, PortsBelow1024) {
  auto isLow = [&]() { return server.ports.back() < 1024; };
  service["GET /user_data/cloud-init"] = [&](kj::AsyncIoStream& stream) {
    return (isLow() ? ok("machine: {}\n") : answer("403 Forbidden", "", ""))(stream);
  };
  service["GET /conf?format=json"] = ok(R"({"id":"s-1","location":{"zone_id":"fr-par-1"}})");
  auto scaleway = at(platforms::kScaleway);
  EXPECT_EQ(config(scaleway), "machine: {}\n");
  auto first = server.ports.back();
  EXPECT_TRUE(first >= 100 && first < 612) << first;
  TestServer busy(io, ok(""), nullptr, first);
  EXPECT_EQ(config(scaleway), "machine: {}\n");
  EXPECT_NE(server.ports.back(), first);
  EXPECT_EQ(facts(scaleway), "fr-par fr-par-1 scaleway://instance/fr-par-1/s-1");
  fetch.random = []() { return 0.999999; };
  EXPECT_EQ(config(scaleway), "machine: {}\n");
  EXPECT_TRUE(isLow());
  amazon();
  config(at(platforms::kAws));
  EXPECT_FALSE(isLow());
}

// Catches: a config that is searched by a label, or requested from the service, which never has it;
// an endless wait for a disc without a config; line breaks in base64, gzip inside it.
TEST_F(PlatformClientTest, DiscOfAzure) {
  auto azure = at(platforms::kAzure);
  auto put = [&](std::string data) {
    volumes.volumes.clear();
    volumes.file("", "ovf-env.xml",
                 kj::str("<ns0:Environment xmlns:ns0=\"a\"><ns1:CustomData xmlns:ns1=\"b\">",
                         data.c_str(), "</ns1:CustomData></ns0:Environment>"));
    return config(azure);
  };
  EXPECT_EQ(config(azure), "none");
  EXPECT_THAT(volumes.looked, ElementsAre("disc with ovf-env.xml 20 s"));
  EXPECT_EQ(put("bWFjaGlu\n  ZToge30K\n"), "machine: {}\n");
  auto packed = zip("machine: {}\n");
  EXPECT_EQ(put(kj::encodeBase64(kj::arrayPtr(packed.data(), packed.size()).asBytes()).cStr()),
            "machine: {}\n");
  EXPECT_EQ(put(""), "none");
  EXPECT_EQ(put(" \n"), "none");
  EXPECT_EQ(where,
            "/dev/sr0: ovf-env.xml (Microsoft Azure) has no machine config; it is empty, or for "
            "another system");
  EXPECT_EQ(put("I2Nsb3VkLWNvbmZpZwo="), "none");
  EXPECT_EQ(put("%"),
            "Unavailable: /dev/sr0: ovf-env.xml: the user data is not base64, as it is on this "
            "platform");
  volumes.volumes.clear();
  volumes.file("", "ovf-env.xml", "<a");
  EXPECT_THAT(config(azure), HasSubstr("/dev/sr0: ovf-env.xml: ovf-env.xml:1:1: is not valid XML"));
  volumes.broken = error(ErrorKind::kUnavailable, "cannot mount /dev/sr0 (udf): x");
  EXPECT_EQ(config(azure),
            "Unavailable: the disc with ovf-env.xml: cannot mount /dev/sr0 (udf): x");
  EXPECT_TRUE(server.asked.empty());
}

// Catches: a machine that never counts as provisioned, because its report is missing or has another
// goal state; a refusal that counts as success; missing headers without which the server refuses.
TEST_F(PlatformClientTest, ReadyReport) {
  auto azure = at(platforms::kAzure);
  auto rules = *azure.report;
  rules.server = place;
  azure.report = &rules;
  PlatformClient client(azure, "", fetch, volumes);
  EXPECT_TRUE(client.expectsReport());
  EXPECT_FALSE(PlatformClient(platforms::kAws, "", fetch, volumes).expectsReport());
  auto report = [&]() -> std::string {
    KJ_IF_MAYBE (e, kj::runCatchingExceptions(
                        [&]() { wait(client.report().then([]() { return 0; })); })) {
      return kj::str(nameOf(kindOf(*e)), ": ", messageOf(*e)).cStr();
    }
    return "reported";
  };
  auto at = kj::str(place, "/machine/: ");
  EXPECT_EQ(report(), kj::str("NotFound: ", at, "the server answered 404 Not Found").cStr());
  service["GET /machine/?comp=goalstate"] =
      ok("<GoalState><Incarnation>7</Incarnation><Container><ContainerId>c-1</ContainerId>"
         "<RoleInstanceList><RoleInstance><InstanceId>r-1</InstanceId></RoleInstance>"
         "</RoleInstanceList></Container></GoalState>");
  service["POST /machine/?comp=health"] = answer("503 Busy", "Content-Length: 0\r\n", "");
  EXPECT_EQ(report(), kj::str("Unavailable: ", at, "the server answered 503 Busy").cStr());
  for (auto status : {"200 OK", "201 Created", "202 Accepted"}) {
    service["POST /machine/?comp=health"] = answer(status, "Content-Length: 0\r\n", "");
    EXPECT_EQ(report(), "reported");
  }
  EXPECT_EQ(server.asked.back(), "POST /machine/?comp=health HTTP/1.1");
  EXPECT_THAT(server.bodies.back(), HasSubstr("<GoalStateIncarnation>7</GoalStateIncarnation>"));
  EXPECT_THAT(server.bodies.back(), HasSubstr("<InstanceId>r-1</InstanceId><Health><State>Ready"));
  for (auto header : {"x-ms-agent-name: WALinuxAgent\r\n", "x-ms-version: 2015-04-05\r\n",
                      "Content-Type: text/xml;charset=utf-8\r\n"}) {
    EXPECT_THAT(server.heads.back(), HasSubstr(header));
    EXPECT_THAT(server.heads[server.heads.size() - 2], HasSubstr(header));
  }
  EXPECT_THAT(server.heads.back(), Not(HasSubstr("Metadata: true")));
  service["GET /machine/?comp=goalstate"] = ok("<GoalState/>");
  EXPECT_THAT(report(), HasSubstr("InvalidArgument: http"));
  EXPECT_THAT(report(), HasSubstr("/machine/: goal state: Incarnation is not a text of 1 to 128"));
}

// Catches: pods that reach the server in the serial number; a name, or no server, that is treated
// as an address.
TEST_F(PlatformClientTest, MetadataAddresses) {
  auto addresses = [&](const Platform& platform, kj::StringPtr serial = "") -> std::string {
    PlatformClient client(platform, serial, fetch, volumes);
    return kj::strArray(client.metadataAddresses(), " ").cStr();
  };
  EXPECT_EQ(addresses(platforms::kAws), "169.254.169.254 fd00:ec2::254");
  EXPECT_EQ(addresses(platforms::kHetzner), "169.254.169.254");
  EXPECT_EQ(addresses(platforms::kVmware), "");
  EXPECT_EQ(addresses(platforms::kNocloud), "");
  EXPECT_EQ(addresses(platforms::kNocloud, "ds=nocloud;s=http://10.0.0.1:8000/a/"), "10.0.0.1");
  EXPECT_EQ(addresses(platforms::kNocloud, "ds=nocloud;s=https://[FD00::1]/a/"), "fd00::1");
  EXPECT_EQ(addresses(platforms::kNocloud, "ds=nocloud;s=http://seed.example.org/"), "");
  EXPECT_EQ(addresses(platforms::kNocloud, "ds=nocloud;s=ftp://10.0.0.1/"), "");
}

// Catches: a machine on VMware that waits for a network, or searches a disc although it has
// variables; facts without metadata.
TEST_F(PlatformClientTest, GuestInformation) {
  parse::TestHypervisor hypervisor;
  foreign.port = hypervisor.port();
  auto& vmware = platforms::kVmware;
  EXPECT_EQ(config(vmware), "none");
  EXPECT_EQ(facts(vmware), "  ");
  volumes.looked.clear();
  hypervisor.variables["guestinfo.userdata"] = "bWFjaGluZToge30K";
  EXPECT_EQ(config(vmware), "machine: {}\n");
  hypervisor.variables["guestinfo.metadata"] =
      kj::encodeBase64(
          "{instance-id: vm-1, local-hostname: n1, network: {version: 2, ethernets: {eth0: "
          "{dhcp4: true}}}}"_kj.asBytes())
          .cStr();
  PlatformClient client(vmware, "", fetch, volumes);
  ASSERT_TRUE(client.hasFacts() && client.onHypervisor() && !client.hasServer());
  EXPECT_EQ(client.shown(), "the guest information (VMware)");
  auto known = wait(client.facts());
  EXPECT_EQ(known.get().getMetadata().getInstanceId(), "vm-1");
  EXPECT_EQ(known.get().getNetwork().getInterfaces().size(), 1u);
  hypervisor.variables["guestinfo.userdata"] = "%";
  EXPECT_EQ(config(vmware),
            "Unavailable: the guest information (VMware): guestinfo.userdata: the user data is not "
            "base64, as it is on this platform");
  EXPECT_TRUE(volumes.looked.empty() && server.asked.empty());
}

// Catches: a disc that is not searched if the hypervisor gives no variables, gives none to this
// machine, or does not answer; a disc that is read although variables exist, or that hides an error
// in them; facts from another place than the config; a search without an end.
TEST_F(PlatformClientTest, DiscOfVmware) {
  auto& vmware = platforms::kVmware;
  auto put = [&](std::string properties) {
    volumes.volumes.clear();
    volumes.file("OVF ENV", "ovf-env.xml",
                 kj::str("<Environment xmlns:oe=\"x\"><PropertySection>", properties.c_str(),
                         "</PropertySection></Environment>"));
  };
  auto property = [](const char* key, kj::StringPtr value) {
    auto text = kj::encodeBase64(value.asBytes());
    return std::string(kj::str("<Property oe:key=\"", key, "\" oe:value=\"", text, "\"/>").cStr());
  };
  auto identifier = [&]() -> std::string {
    PlatformClient client(vmware, "", fetch, volumes);
    return wait(client.facts()).get().getMetadata().getInstanceId().cStr();
  };
  foreign.port = [](parse::PortRegisters&) {
    fail(ErrorKind::kFailedPrecondition, "this machine is not on VMware: its hypervisor is \"x\"");
  };
  constexpr auto kNone =
      "Unavailable: the guest information (VMware): this machine is not on VMware: ";
  EXPECT_THAT(config(vmware), HasSubstr(kNone));
  EXPECT_THAT(volumes.looked, ElementsAre("disc with ovf-env.xml 5 s"));
  EXPECT_THAT(facts(vmware), HasSubstr("FailedPrecondition: this machine is not on VMware: "));
  EXPECT_EQ(volumes.looked.back(), "disc with ovf-env.xml 5 s");
  config(vmware, 2 * kj::SECONDS);
  EXPECT_EQ(volumes.looked.back(), "disc with ovf-env.xml 2 s");
  put(property("userdata", "machine: {}\n"));
  EXPECT_EQ(config(vmware), "machine: {}\n");
  EXPECT_EQ(identifier(), "");
  put(property("userdata", "no") + property("talos.config", "machine: {}\n") +
      property("metadata", "{instance-id: vm-1}"));
  EXPECT_EQ(config(vmware), "machine: {}\n");
  EXPECT_EQ(identifier(), "vm-1");
  put("<Property oe:key=\"talos.config\" oe:value=\"%\"/>"
      "<Property oe:key=\"metadata\" oe:value=\"%\"/>");
  EXPECT_EQ(config(vmware),
            "Unavailable: /dev/sr0: ovf-env.xml: property talos.config of ovf-env.xml: the user "
            "data is not base64, as it is on this platform");
  EXPECT_THAT(facts(vmware), HasSubstr("InvalidArgument: property metadata of ovf-env.xml: "));
  put("");
  EXPECT_THAT(config(vmware), HasSubstr(kNone));
  volumes.broken = error(ErrorKind::kUnavailable, "cannot mount /dev/sr0 (iso9660): x");
  EXPECT_EQ(config(vmware),
            "Unavailable: the disc with ovf-env.xml: cannot mount /dev/sr0 (iso9660): x");
  volumes.broken = nullptr;

  parse::TestHypervisor hypervisor;
  foreign.port = hypervisor.port();
  put(property("talos.config", "machine: {}\n") + property("metadata", "{instance-id: vm-1}"));
  EXPECT_EQ(config(vmware), "machine: {}\n");
  EXPECT_EQ(identifier(), "vm-1");
  hypervisor.restricted = true;
  EXPECT_EQ(config(vmware), "machine: {}\n");
  EXPECT_EQ(identifier(), "vm-1");
  hypervisor.restricted = false;
  volumes.looked.clear();
  for (auto variable : {"guestinfo.userdata", "guestinfo.metadata"}) {
    hypervisor.variables[variable] = "%";
  }
  EXPECT_THAT(config(vmware), HasSubstr("guestinfo.userdata: the user data is not base64"));
  EXPECT_THAT(facts(vmware), HasSubstr("guestinfo.metadata: the user data is not base64"));
  hypervisor.variables["guestinfo.metadata"] =
      kj::encodeBase64("{local-hostname: n1}"_kj.asBytes()).cStr();
  EXPECT_EQ(identifier(), "");
  EXPECT_THAT(volumes.looked, testing::IsEmpty());
}

// Catches: a platform without its facts, or a query for facts on a platform without any.
TEST_F(PlatformClientTest, PlatformsWithFactsAreQueriedForThem) {
  for (auto* platform : platforms::all()) {
    EXPECT_TRUE(PlatformClient(*platform, "", fetch, volumes).hasFacts()) << platform->name.cStr();
  }
}

// Catches: a volume that is ignored in favour of a server, which may not exist; a mixture of both.
TEST_F(PlatformClientTest, VolumeHasPrecedenceOverAServer) {
  volumes.file("config-2", "openstack/latest/meta_data.json",
               R"({"uuid":"u-1","availability_zone":"nova"})");
  volumes.file("config-2", "openstack/latest/user_data", "machine: {}\n");
  auto openstack = at(platforms::kOpenstack);
  EXPECT_EQ(config(openstack), "machine: {}\n");
  EXPECT_EQ(facts(openstack), " nova openstack:///u-1");
  EXPECT_TRUE(server.asked.empty());
  volumes.remove("config-2");
  EXPECT_EQ(config(openstack), "none");
  EXPECT_EQ(
      where,
      kj::str(place, " (OpenStack) has no user data, and there is no volume config-2").cStr());
  service["GET /openstack/latest/user_data"] = ok("machine: {a: b}\n");
  EXPECT_EQ(config(openstack), "machine: {a: b}\n");
  service["GET /openstack/latest/meta_data.json"] = ok(R"({"uuid":"u-2"})");
  EXPECT_EQ(facts(openstack), "  openstack:///u-2");

  volumes.file("context", "readme", "x");
  EXPECT_EQ(config(platforms::kOpennebula), "none");
  EXPECT_EQ(where, "volume context (/dev/sr0) has no file context.sh");
  volumes.file("context", "context.sh", "VMID='14'\nUSER_DATA='bWFjaGluZToge30K'\n");
  EXPECT_EQ(config(platforms::kOpennebula), "machine: {}\n");
  volumes.remove("context");
  EXPECT_EQ(config(platforms::kOpennebula),
            "Unavailable: volume context: no such volume found within 20 s");
  EXPECT_EQ(facts(platforms::kNocloud), "  ");
  volumes.file("cidata", "meta-data", "{region: dc1, zone: pve1, provider-id: p}");
  EXPECT_EQ(facts(platforms::kNocloud), "dc1 pve1 p");
}

// Catches: a stated encoding that is ignored; text of several lines that is cut, or whose lines are
// treated as variables; a quote within it.
TEST_F(PlatformClientTest, UserDataOfOpennebula) {
  struct Row {
    kj::StringPtr context;
    std::string config;
  };
  for (auto& row : std::initializer_list<Row>{
           {"USER_DATA='bWFjaGluZToge30K'\nUSERDATA_ENCODING='base64'\n", "machine: {}\n"},
           {"USERDATA=\"bWFjaGluZToge30K\"\nUSER_DATA_ENCODING=\"base64\"\n", "machine: {}\n"},
           {"USER_DATA='machine:\n  env: {A: '\\''b'\\''}\nVMID=5\n'\nVMID='14'\n",
            "machine:\n  env: {A: 'b'}\nVMID=5\n"},
           {"USER_DATA=\"machine: {\\\"a\\\": b}\"\n", "machine: {\"a\": b}"},
           {"USER_DATA='#cloud-config\nhostname: n1\n'\n", "none"},
           {"VMID='14'\n", "none"},
           {"USER_DATA='machine: {}'\nUSERDATA_ENCODING='base64'\n",
            "Unavailable: volume context (/dev/sr0): context.sh: the user data is not base64, as "
            "it is on this platform"},
           {"USER_DATA='bWFjaGluZToge30K'\nUSERDATA_ENCODING='gzip'\n",
            "Unavailable: volume context (/dev/sr0): context.sh: USERDATA_ENCODING: \"gzip\" is "
            "not an encoding of user data; use base64, or leave it out for text"}}) {
    volumes.volumes.clear();
    volumes.file("context", "context.sh", row.context);
    EXPECT_EQ(config(platforms::kOpennebula), row.config) << row.context.cStr();
  }
}

// Catches: NoCloud's facts that are requested for ever, and without an error, from a name that is
// no server.
TEST_F(PlatformClientTest, ServerOfTheSerialNumber) {
  PlatformClient client(platforms::kNocloud, "ds=nocloud;s=ftp://x/", fetch, volumes);
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { wait(client.facts()); })) {
    EXPECT_EQ(messageOf(*e),
              "serial number: \"ftp://x/\" is not a server; use http:// or https://");
  } else {
    ADD_FAILURE() << "asked";
  }
}

}  // namespace
}  // namespace talos::machined
