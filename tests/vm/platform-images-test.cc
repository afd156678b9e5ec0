// A machine on each platform, started by its BIOS from its image's disk, with the firmware's
// strings of the provider, and with a model of the metadata service at its address as its only
// source of a config. The disk is as disk-image writes it, and small; the files that `make image`
// makes from it are read back by tests/platform-formats.sh. Images of the network boot are started
// as they are.
#include <gtest/gtest.h>
#include <kj/encoding.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <regex>

#include "common/tls/pki.h"
#include "tests/harness/web.h"
#include "tests/vm/lone-machine.h"
#include "tests/vm/named-services.h"

namespace talos::vm {
namespace {

using harness::contains;
using harness::eventually;
using harness::Manner;
using harness::Web;
namespace fs = std::filesystem;

constexpr double kUp = 480;  // emulated, beside whatever else runs
constexpr const char* kDiskMib = "1246";
constexpr uintmax_t kMachineDisk = 3ull << 30;
constexpr double kVarGb = 2;  // at least, when /var has what the image has not

std::string base64(const std::string& text) {
  return kj::encodeBase64(kj::StringPtr(text.c_str()).asBytes()).cStr();
}
std::string plain(const std::string& text) {
  return text;
}

struct Answer {
  std::string request, body;
};
struct Row {
  std::string platform, smbios;
  std::string config;  // request
  std::string (*encoded)(const std::string& config);
  std::vector<Answer> facts;
  std::string metadata, external;  // a line of platformmetadata; an address outside
  std::vector<std::string> controller = {"virtio-blk-pci"};
  std::vector<std::string> services = {"169.254.169.254"};
  // Name and label of a disc with the config in this file; empty if the machine has no disc.
  std::string file = "", label = "";
  // Name by which the machine calls its first service; empty if it calls an address.
  std::string serviceName = "";
  std::string card = "virtio-net-pci";
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.platform;
}

// One network with the services of all in it, so that no router is needed.
const std::string kNetwork = "net=160.0.0.0/4,host=160.0.0.2,dns=160.0.0.3,dhcpstart=160.0.0.15";
const std::string kMac = "52:54:00:12:34:56";
const std::string kOwn = R"("ip_address":"160.0.0.15","netmask":"240.0.0.0","gateway":"160.0.0.2")";

const std::string kReport = "POST /machine/?comp=health ";

std::string ovfEnvironment(const std::string& config) {
  return R"(<a:Environment xmlns:a="http://schemas.dmtf.org/ovf/environment/1")"
         R"( xmlns:b="http://schemas.microsoft.com/windowsazure"><b:ProvisioningSection>)"
         "<b:LinuxProvisioningConfigurationSet><b:CustomData>" +
         base64(config) +
         "</b:CustomData></b:LinuxProvisioningConfigurationSet></b:ProvisioningSection>"
         "</a:Environment>";
}
// Returns the OVF environment of the transport `iso`, which vSphere puts into the machine's drive.
std::string ovfProperties(const std::string& config) {
  auto metadata =
      "{instance-id: vm-1, local-hostname: n1, network: {version: 2, ethernets: {first: {match: "
      "{macaddress: \"" +
      kMac + "\"}, addresses: [160.0.0.15/4], gateway4: 160.0.0.2}}}}";
  auto property = [](const char* key, const std::string& value) {
    return "<Property oe:key=\"" + std::string(key) + "\" oe:value=\"" + base64(value) + "\"/>";
  };
  return R"(<Environment xmlns="http://schemas.dmtf.org/ovf/environment/1")"
         R"( xmlns:oe="http://schemas.dmtf.org/ovf/environment/1"><PropertySection>)" +
         property("talos.config", config) + property("metadata", metadata) +
         "</PropertySection></Environment>";
}
std::string context(const std::string& config) {
  return "NETWORK=\"YES\"\nNAME=\"n1\"\nVMID=\"14\"\nETH0_MAC=\"" + kMac +
         "\"\nETH0_IP=\"160.0.0.15\"\nETH0_MASK=\"240.0.0.0\"\nETH0_GATEWAY=\"160.0.0.2\"\n"
         "USER_DATA=\"" +
         base64(config) + "\"\n";
}

const Row kRows[] = {
    {"aws",
     "type=1,manufacturer=Amazon EC2,product=t3.small,uuid=ec2a0000-1111-2222-3333-444455556666",
     "GET /latest/user-data ",
     plain,
     {{"PUT /latest/api/token ", "dG9rZW4="},
      {"GET /latest/meta-data/hostname ", "n1.eu-test-1.compute.internal"},
      {"GET /latest/meta-data/instance-id ", "i-0abc"},
      {"GET /latest/meta-data/public-ipv4 ", "203.0.113.7"},
      {"GET /latest/meta-data/placement/availability-zone ", "eu-test-1a"}},
     "providerId: aws:///eu-test-1a/i-0abc",
     "203.0.113.7",
     {"nvme,serial=vol0abc"}},
    {"gcp",
     "type=1,manufacturer=Google,product=Google Compute Engine,serial=GoogleCloud-ABC",
     "GET /computeMetadata/v1/instance/attributes/user-data ",
     plain,
     {{"GET /computeMetadata/v1/project/project-id ", "p1"},
      {"GET /computeMetadata/v1/instance/name ", "n1"},
      {"GET /computeMetadata/v1/instance/id ", "42"},
      {"GET /computeMetadata/v1/instance/hostname ", "n1.c.p1.internal"},
      {"GET /computeMetadata/v1/instance/zone ", "projects/1/zones/eu-t1-a"},
      {"GET /computeMetadata/v1/instance/network-interfaces/",
       R"([{"accessConfigs":[{"externalIp":"203.0.113.8","type":"ONE_TO_ONE_NAT"}],"mtu":1460,"mac":")" +
           kMac + R"("}])"}},
     "providerId: gce://p1/eu-t1-a/n1",
     "203.0.113.8",
     {"virtio-scsi-pci,id=bus", "scsi-hd,bus=bus.0"}},
    {"openstack",
     "type=1,manufacturer=OpenStack Foundation,product=OpenStack Nova",
     "GET /openstack/latest/user_data ",
     plain,
     {{"GET /openstack/latest/meta_data.json ",
       R"({"uuid":"u-1","hostname":"n1.novalocal","availability_zone":"nova"})"},
      {"GET /openstack/latest/network_data.json ",
       R"({"links":[{"id":"l0","type":"ovs","ethernet_mac_address":")" + kMac +
           R"(","mtu":1450}],"networks":[{"id":"n0","link":"l0","type":"ipv4_dhcp"}],"services":[]})"},
      {"GET /latest/meta-data/public-ipv4 ", "203.0.113.9"}},
     "providerId: openstack:///u-1",
     "203.0.113.9"},
    {"hcloud",
     "type=1,manufacturer=Hetzner,product=vServer,serial=4711",
     "GET /hetzner/v1/userdata ",
     base64,
     {{"GET /hetzner/v1/metadata/hostname ", "n1"},
      {"GET /hetzner/v1/metadata/instance-id ", "4711"},
      {"GET /hetzner/v1/metadata/public-ipv4 ", "203.0.113.10"},
      {"GET /hetzner/v1/metadata/network-config ",
       "version: 1\nconfig:\n- type: physical\n  name: eth0\n  subnets:\n  - {type: dhcp, ipv4: "
       "true}\n"}},
     "providerId: hcloud://4711",
     "203.0.113.10",
     {"virtio-scsi-pci,id=bus", "scsi-hd,bus=bus.0"}},
    {"digital-ocean",
     "type=1,manufacturer=DigitalOcean,product=Droplet,serial=123",
     "GET /metadata/v1/user-data ",
     plain,
     {{"GET /metadata/v1.json ",
       R"({"droplet_id":123,"hostname":"n1","region":"tst1","interfaces":{"public":[{"mac":")" +
           kMac + R"(","ipv4":{)" + kOwn + "}}]}}"}},
     "providerId: digitalocean://123",
     "160.0.0.15"},
    {"vultr",
     "type=1,manufacturer=Vultr,product=VC2",
     "GET /latest/user-data ",
     plain,
     {{"GET /v1.json ",
       R"({"hostname":"n1","instance-v2-id":"v-1","region":{"regioncode":"TST"},"interfaces":[)"
       R"({"network-type":"public","mac":")" +
           kMac +
           R"(","ipv4":{"address":"160.0.0.15","netmask":"240.0.0.0","gateway":"160.0.0.2"}}]})"}},
     "providerId: vultr://v-1",
     "160.0.0.15"},
    {"oracle",
     "type=3,asset=OracleCloud.com",
     "GET /opc/v2/instance/metadata/user_data ",
     base64,
     {{"GET /opc/v2/instance/ ",
       R"({"id":"ocid1.x","hostname":"n1","region":"tst","availabilityDomain":"Ab:TST-AD-1"})"}},
     "providerId: oci://ocid1.x",
     ""},
    {"upcloud",
     "type=1,manufacturer=UpCloud,product=Cloud Server",
     "GET /metadata/v1/user_data ",
     plain,
     {{"GET /metadata/v1.json ",
       R"({"instance_id":"u-1","hostname":"n1","region":"ts-1","network":{"interfaces":[{"index":1,)"
       R"("type":"public","ip_addresses":[{"address":"203.0.113.6","dhcp":true,"family":"IPv4"}]}]}})"}},
     "providerId: upcloud://u-1",
     "203.0.113.6"},
    {"exoscale",
     "type=1,manufacturer=Exoscale,product=Exoscale Compute Platform",
     "GET /1.0/user-data ",
     plain,
     {{"GET /1.0/meta-data/local-hostname ", "n1"},
      {"GET /1.0/meta-data/instance-id ", "e-1"},
      {"GET /1.0/meta-data/public-ipv4 ", "203.0.113.11"}},
     "providerId: exoscale://e-1",
     "203.0.113.11"},
    {"akamai",
     "type=1,manufacturer=Akamai,product=Compute Instance",
     "GET /v1/user-data ",
     base64,
     {{"PUT /v1/token ", R"(["tok"])"},
      {"GET /v1/instance ", R"({"id":5,"label":"n1","region":"ts-east","type":"g6-1"})"},
      {"GET /v1/network ", R"({"ipv4":{"public":["203.0.113.5/32"],"private":[]},"ipv6":{}})"}},
     "providerId: linode://5",
     "203.0.113.5"},
    {"nocloud",
     "type=1,serial=ds=nocloud;s=http://169.254.169.254/seed/",
     "GET /seed/user-data ",
     plain,
     {{"GET /seed/meta-data ",
       "{instance-id: i-42, local-hostname: n1, provider-id: \"proxmox://dc1/100\"}"},
      {"GET /seed/network-config ", "version: 2\nethernets:\n  any: {match: {macaddress: \"" +
                                        kMac +
                                        "\"}, addresses: [160.0.0.15/4], gateway4: 160.0.0.2}\n"}},
     "providerId: proxmox://dc1/100",
     ""},
    {"scaleway",
     "type=1,manufacturer=Scaleway,product=SCW-DEV1-S",
     "GET /user_data/cloud-init ",
     plain,
     {{"GET /conf?format=json ",
       R"({"id":"s-1","hostname":"n1","public_ip":{"address":"203.0.113.30","family":"inet"},)"
       R"("public_ips_v4":[{"address":"203.0.113.30","netmask":"32","family":"inet"}],)"
       R"("location":{"zone_id":"fr-par-1"}})"}},
     "providerId: scaleway://instance/fr-par-1/s-1",
     "203.0.113.30",
     {"virtio-blk-pci"},
     {"169.254.42.42"}},
    {"azure",
     "type=3,asset=7783-7084-3265-9085-8269-3286-77",
     "",
     ovfEnvironment,
     {{"GET /metadata/instance/compute",
       R"({"location":"TestNorth","osProfile":{"computerName":"n1"},"resourceId":)"
       R"("/subscriptions/s/resourceGroups/RG/providers/Microsoft.Compute/virtualMachines/n1"})"},
      {"GET /metadata/instance/network/interface",
       R"([{"ipv4":{"ipAddress":[{"publicIpAddress":"203.0.113.31"}]},)"
       R"("macAddress":"525400123456"}])"},
      {"GET /machine/?comp=goalstate ",
       "<GoalState><Incarnation>1</Incarnation><Container><ContainerId>c-1</ContainerId>"
       "<RoleInstanceList><RoleInstance><InstanceId>r-1</InstanceId></RoleInstance>"
       "</RoleInstanceList></Container></GoalState>"},
      {kReport, "taken"}},
     "providerId: "
     "azure:///subscriptions/s/resourceGroups/rg/providers/Microsoft.Compute/virtualMachines/n1",
     "203.0.113.31",
     {"virtio-scsi-pci,id=bus", "scsi-hd,bus=bus.0"},
     {"169.254.169.254", "168.63.129.16"},
     "ovf-env.xml",
     "AZURE"},
    {"cloudstack",
     "type=1,manufacturer=Apache Software Foundation,product=CloudStack KVM Hypervisor",
     "GET /latest/user-data ",
     plain,
     {{"GET /latest/meta-data/local-hostname ", "n1"},
      {"GET /latest/meta-data/service-offering ", "Small"},
      {"GET /latest/meta-data/instance-id ", "c-1"},
      {"GET /latest/meta-data/public-ipv4 ", "203.0.113.12"},
      {"GET /latest/meta-data/availability-zone ", "zone1"}},
     "providerId: cloudstack://c-1",
     "203.0.113.12",
     {"virtio-blk-pci"},
     {"160.0.0.100"},
     "",
     "",
     "data-server"},
    {"opennebula",
     "type=1,manufacturer=OpenNebula",
     "",
     context,
     {},
     "",
     "",
     {"virtio-blk-pci"},
     {},
     "context.sh",
     "CONTEXT"},
    {"vmware",
     "type=1,manufacturer=VMware,, Inc.,product=VMware Virtual Platform",
     "",
     ovfProperties,
     {},
     "instanceId: vm-1",
     "160.0.0.15/4",
     {"pvscsi,id=bus", "scsi-hd,bus=bus.0"},
     {},
     "ovf-env.xml",
     "OVF ENV",
     "",
     "vmxnet3"},
};

class PlatformImages : public testing::TestWithParam<Row> {
 protected:
  static std::string disk(const std::string& platform) {
    auto made = (fs::temp_directory_path() / ("talos-" + platform + "-disk")).string();
    auto program = fs::path(getenv("TALOSCTL")).parent_path() / "disk-image";
    auto result =
        harness::run({program, platform, kDiskMib, LoneMachine::image("parts/tree/usr/install"),
                      LoneMachine::image("rootfs.sqsh"), made},
                     300);
    EXPECT_EQ(result.status, 0) << result.err;
    fs::resize_file(made, kMachineDisk);  // as a provider does
    return made;
  }
};

}  // namespace

// Catches: an image that its firmware does not start, or that is not of this platform; a request
// that does not match the provider's service; facts that do not arrive; a STATE and an EPHEMERAL
// that the first boot does not make.
TEST_P(PlatformImages, BootsConfiguredWithNoOtherHelp) {
  auto& row = GetParam();
  auto model =
      "127.79." + std::to_string(getpid() / 250 % 250) + "." + std::to_string(getpid() % 250 + 2);
  std::optional<NamedServices> names;
  if (!row.serviceName.empty()) {
    names.emplace(std::vector<std::string>{row.serviceName}, row.services[0]);
  }
  Web web(getpid(), model, 80);
  // A machine that resolves names needs a network that only the test uses.
  auto network = (names ? "" : "restrict=on,") + kNetwork;
  for (auto& service : row.services) {
    network += ",guestfwd=tcp:" + service + ":80-cmd:/bin/busybox nc " + model + " 80";
  }
  for (auto& answer : row.facts) web.answerTo(answer.request, Manner::kGood, answer.body);
  LoneMachine::Hardware hardware{.disk = disk(row.platform),
                                 .controller = row.controller,
                                 .card = row.card,
                                 .network = network,
                                 .more = {"-smbios", row.smbios}};
  hardware.beforeItStarts = [&](LoneMachine& machine, LoneMachine::Hardware& hardware) {
    auto config = row.encoded(machine.generate());
    if (row.file.empty()) {
      web.answerTo(row.config, Manner::kGood, config);
    } else {
      hardware.cd = machine.disc(row.label, row.file, config);
    }
  };
  LoneMachine machine(hardware);
  auto get = [&](const char* what) { return machine.at({"get", what, "-o", "yaml"}).out; };
  ASSERT_TRUE(eventually([&] { return contains(get("machinetype"), "controlplane"); }, kUp, 1))
      << machine.console().substr(0, 6000);
  auto shows = [&](const char* what, const std::string& text) {
    EXPECT_TRUE(eventually([&] { return contains(get(what), text); }, kUp, 1))
        << what << " without " << text << ":\n"
        << get(what);
  };
  if (!row.metadata.empty()) shows("platformmetadata", row.metadata);
  auto name = [&] { return machine.at({"read", "/proc/sys/kernel/hostname"}).out; };
  EXPECT_TRUE(eventually([&] { return name() == "n1\n"; }, kUp, 1)) << name();
  if (!row.external.empty()) shows("platformconfigs", row.external);
  if (row.platform == "azure") {
    EXPECT_TRUE(eventually([&] { return web.askedFor(kReport) > 0; }, kUp, 1));
  }
  auto cmdline = machine.at({"read", "/proc/cmdline"}).out;
  EXPECT_TRUE(contains(cmdline, "talos.platform=" + row.platform + " ")) << cmdline;
  EXPECT_TRUE(contains(cmdline, "talos.slot=A")) << cmdline;
  auto mounts = machine.at({"mounts"}).out;
  EXPECT_TRUE(contains(mounts, "/system/state")) << mounts;
  std::smatch var;
  ASSERT_TRUE(std::regex_search(mounts, var, std::regex(R"(/dev/\S+ +(\d+\.\d+)[^\n]* /var\n)")))
      << mounts;
  EXPECT_GE(std::stod(var[1]), kVarGb) << mounts;
}
INSTANTIATE_TEST_SUITE_P(Each, PlatformImages, testing::ValuesIn(kRows),
                         [](const testing::TestParamInfo<Row>& info) {
                           auto name = info.param.platform;
                           for (auto& c : name) {
                             if (c == '-') c = '_';
                           }
                           return name;
                         });

namespace {

// Returns a folder, beside those of `make image`, for a server from which machines of Equinix Metal
// start.
std::string pxeFolder(const LoneMachine& machine, const std::string& arguments) {
  auto image = machine.path("image");
  fs::create_directory(image);
  for (auto name : {"parts", "initramfs"}) {
    fs::create_symlink(LoneMachine::image(name), image + "/" + name);
  }
  auto program = fs::path(getenv("TALOSCTL")).parent_path() / "disk-image";
  auto made = harness::run({SCRIPTS "/platform-image.sh", image, program, "equinixMetal"}, 300,
                           {"ARGUMENTS=" + arguments});
  EXPECT_EQ(made.status, 0) << made.out << made.err;
  return image + "/equinixMetal-amd64.pxe";
}

}  // namespace

// Catches: a script of the network boot that iPXE does not read, or without the platform; a service
// that is called over HTTP, or before a name server is known; a bond that takes the machine's card
// from the network and does not come up.
TEST(PlatformsOfNetworkBoots, EquinixMetalBootsConfigured) {
  const std::string host = "metadata.platformequinix.com", service = "160.0.0.100";
  NamedServices names({host}, service);
  auto authority =
      pki::makeAuthority({.organization = "test", .keyType = pki::KeyType::kEcdsaP256});
  pki::LeafOptions options;
  options.dnsNames = kj::arr(kj::str(host.c_str()));
  auto leaf = pki::issue(authority.certificate, authority.key, kj::mv(options));
  std::optional<harness::Background> server;
  LoneMachine::Hardware hardware{.card = "virtio-net-pci,speed=10000,duplex=full",
                                 .networkBoot = true};
  hardware.beforeItStarts = [&](LoneMachine& machine, LoneMachine::Hardware& hardware) {
    std::ofstream(machine.path("userdata")) << machine.generate();
    std::ofstream(machine.path("metadata"))
        << R"({"id":"e-1","hostname":"n1","plan":"c3.small","metro":"ts","facility":"ts1",)"
           R"("private_subnets":["10.0.0.0/8"],"network":{"bonding":{"mode":4},"interfaces":[)"
           R"({"name":"eth0","mac":")" +
               kMac +
               R"(","bond":"bond0"}],"addresses":[{"address_family":4,"public":true,)"
               R"("management":true,"enabled":true,"cidr":4,"address":"160.0.0.15",)"
               R"("gateway":"160.0.0.2"}]}})";
    std::ofstream(machine.path("certificate")) << leaf.certificate.cStr();
    std::ofstream(machine.path("key")) << kj::StringPtr(leaf.key).cStr();
    server.emplace(std::vector<std::string>{
        "env", "--chdir=" + machine.path(""), "openssl", "s_server", "-accept", "127.0.0.1:443",
        "-cert", machine.path("certificate"), "-key", machine.path("key"), "-WWW", "-quiet"});
    auto folder = pxeFolder(machine, "console=ttyS0 talos.config.ca=" +
                                         base64(kj::StringPtr(authority.certificate).cStr()));
    hardware.network = kNetwork + ",tftp=" + folder +
                       ",bootfile=boot.ipxe,guestfwd=tcp:" + service +
                       ":443-cmd:/bin/busybox nc 127.0.0.1 443";
  };
  LoneMachine machine(hardware);
  auto get = [&](const char* what) { return machine.at({"get", what, "-o", "yaml"}).out; };
  auto shows = [&](const char* what, const std::string& text) {
    return eventually([&] { return contains(get(what), text); }, 2 * kUp, 1);
  };
  ASSERT_TRUE(shows("platformmetadata", "providerId: equinixmetal://e-1")) << machine.console();
  EXPECT_TRUE(shows("machinetype", "controlplane")) << machine.console();
  EXPECT_TRUE(shows("hostnames", "n1")) << get("hostnames");
  EXPECT_TRUE(shows("addresses", "bond0/160.0.0.15/4")) << get("addresses");
  auto mounted = [&] { return contains(machine.at({"mounts"}).out, "/system/state"); };
  EXPECT_TRUE(eventually(mounted, 2 * kUp, 1)) << machine.console();
}

}  // namespace talos::vm
