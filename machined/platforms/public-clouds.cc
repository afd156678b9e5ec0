// Platforms of public clouds. Each quotes the provider's public document.
#include "machined/platforms/platform.h"

namespace talos::platforms {

// Akamai (Linode): "Metadata service API" of its documentation.
namespace {

constexpr kj::StringPtr kAkamaiMetadata[] = {"169.254.169.254"_kj, "fd00:a9fe:a9fe::1"_kj};

constexpr Header kAkamaiHeaders[] = {{"Accept"_kj, "application/json"_kj}};
constexpr Token kAkamaiToken{.target = "/v1/token"_kj,
                             .lifetime = {"Metadata-Token-Expiry-Seconds"_kj, "3600"_kj},
                             .header = "Metadata-Token"_kj,
                             .list = true};

constexpr Request kAkamaiFacts[] = {{"instance"_kj, "/v1/instance"_kj, true},
                                    {"network"_kj, "/v1/network"_kj}};

bool isAkamai(const Firmware& firmware) {
  return firmware.vendor == "Akamai" || firmware.vendor == "Linode";
}

}  // namespace

const Platform kAkamai{.name = "akamai"_kj,
                       .title = "Akamai"_kj,
                       .consoles = "ttyS0 tty0 tty1"_kj,
                       .metadata = kAkamaiMetadata,
                       .headers = kAkamaiHeaders,
                       .token = &kAkamaiToken,
                       .config = {"user-data"_kj, "/v1/user-data"_kj},
                       .encoding = Encoding::kBase64,
                       .facts = kAkamaiFacts,
                       .matches = isAkamai};

// Amazon EC2: "Instance metadata and user data" of the Amazon EC2 User Guide, IMDSv2.
namespace {

constexpr kj::StringPtr kAwsMetadata[] = {"169.254.169.254"_kj, "fd00:ec2::254"_kj};

constexpr Token kAwsToken{.target = "/latest/api/token"_kj,
                          .lifetime = {"X-aws-ec2-metadata-token-ttl-seconds"_kj, "21600"_kj},
                          .header = "X-aws-ec2-metadata-token"_kj,
                          .optional = true};

constexpr Request kAwsFacts[] = {{"hostname"_kj, "/latest/meta-data/hostname"_kj},
                                 {"instance-type"_kj, "/latest/meta-data/instance-type"_kj},
                                 {"life-cycle"_kj, "/latest/meta-data/instance-life-cycle"_kj},
                                 {"instance-id"_kj, "/latest/meta-data/instance-id"_kj, true},
                                 {"public-ipv4"_kj, "/latest/meta-data/public-ipv4"_kj},
                                 {"ipv6"_kj, "/latest/meta-data/ipv6"_kj},
                                 {"local-hostname"_kj, "/latest/meta-data/local-hostname"_kj},
                                 {"public-hostname"_kj, "/latest/meta-data/public-hostname"_kj},
                                 {"region"_kj, "/latest/meta-data/placement/region"_kj},
                                 {"zone"_kj, "/latest/meta-data/placement/availability-zone"_kj}};

// "ec2…", or the same with the first group's octets in the order of SMBIOS before 2.6.
bool isEc2(kj::StringPtr uuid) {
  constexpr size_t kFirstGroup = 8;
  if (uuid.startsWith("ec2")) return true;
  return uuid.size() > kFirstGroup && uuid[4] == '2' && uuid.slice(6).startsWith("ec");
}

bool isAws(const Firmware& firmware) {
  return firmware.vendor == "Amazon EC2" || isEc2(firmware.uuid);
}

}  // namespace

const Platform kAws{.name = "aws"_kj,
                    .title = "Amazon EC2"_kj,
                    .consoles = "tty1 ttyS0"_kj,
                    .metadata = kAwsMetadata,
                    .token = &kAwsToken,
                    .config = {"user-data"_kj, "/latest/user-data"_kj},
                    .facts = kAwsFacts,
                    .matches = isAws};

// Microsoft Azure: "Azure Instance Metadata Service" of its documentation; the disc and the report
// as "Create generalized images without a provisioning agent" there describes them.
namespace {

// The second is the wire server, with the secrets of extensions.
constexpr kj::StringPtr kAzureMetadata[] = {"169.254.169.254"_kj, "168.63.129.16"_kj};

constexpr Header kAzureHeaders[] = {{"Metadata"_kj, "true"_kj}};

// Azure Stack Hub has the older version alone.
constexpr Request kAzureFacts[] = {
    {.name = "compute"_kj,
     .target = "/metadata/instance/compute?api-version=2021-12-13&format=json"_kj,
     .required = true,
     .olderTarget = "/metadata/instance/compute?api-version=2019-06-01&format=json"_kj},
    {.name = "interfaces"_kj,
     .target = "/metadata/instance/network/interface?api-version=2021-12-13&format=json"_kj,
     .olderTarget = "/metadata/instance/network/interface?api-version=2019-06-01&format=json"_kj},
    {.name = "loadbalancer"_kj,
     .target = "/metadata/loadbalancer?api-version=2021-12-13&format=json"_kj,
     .olderTarget = "/metadata/loadbalancer?api-version=2019-06-01&format=json"_kj}};

constexpr Header kReportHeaders[] = {{"x-ms-agent-name"_kj, "WALinuxAgent"_kj},
                                     {"x-ms-version"_kj, "2015-04-05"_kj},
                                     {"Content-Type"_kj, "text/xml;charset=utf-8"_kj}};
constexpr ReadyReport kAzureReport = {.server = "http://168.63.129.16"_kj,
                                      .goalState = "/machine/?comp=goalstate"_kj,
                                      .health = "/machine/?comp=health"_kj,
                                      .headers = kReportHeaders};

bool isAzure(const Firmware& firmware) {
  return firmware.chassisTag == "7783-7084-3265-9085-8269-3286-77";
}

}  // namespace

const Platform kAzure{.name = "azure"_kj,
                      .title = "Microsoft Azure"_kj,
                      .consoles = "ttyS0,115200n8"_kj,
                      .metadata = kAzureMetadata,
                      .headers = kAzureHeaders,
                      .place = Place::kDisc,
                      .config = {"ovf-env"_kj, "ovf-env.xml"_kj},
                      .encoding = Encoding::kOvfEnvironment,
                      .facts = kAzureFacts,
                      .report = &kAzureReport,
                      .dhcpMtu = false,
                      .matches = isAzure};

// DigitalOcean: "Droplet Metadata API" of its documentation.
namespace {

constexpr Request kDigitalOceanFacts[] = {{"metadata"_kj, "/metadata/v1.json"_kj, true}};

bool isDigitalOcean(const Firmware& firmware) {
  return firmware.vendor == "DigitalOcean";
}

}  // namespace

const Platform kDigitalOcean{.name = "digital-ocean"_kj,
                             .title = "DigitalOcean"_kj,
                             .consoles = "ttyS0 tty0 tty1"_kj,
                             .config = {"user-data"_kj, "/metadata/v1/user-data"_kj},
                             .facts = kDigitalOceanFacts,
                             .matches = isDigitalOcean};

// Equinix Metal: "Metadata" of its documentation. The firmware of its machines does not name the
// provider.
namespace {

constexpr Request kEquinixMetalFacts[] = {{"metadata"_kj, "/metadata"_kj, true}};

}  // namespace

const Platform kEquinixMetal{.name = "equinixMetal"_kj,
                             .title = "Equinix Metal"_kj,
                             .consoles = "ttyS1,115200n8"_kj,
                             .server = "https://metadata.platformequinix.com"_kj,
                             .metadata = nullptr,
                             .config = {"userdata"_kj, "/userdata"_kj},
                             .facts = kEquinixMetalFacts};

// Exoscale: "Querying instance metadata" of its documentation.
namespace {

constexpr Request kExoscaleFacts[] = {{"hostname"_kj, "/1.0/meta-data/local-hostname"_kj},
                                      {"offering"_kj, "/1.0/meta-data/service-offering"_kj},
                                      {"instance-id"_kj, "/1.0/meta-data/instance-id"_kj, true},
                                      {"public-ipv4"_kj, "/1.0/meta-data/public-ipv4"_kj},
                                      {"zone"_kj, "/1.0/meta-data/availability-zone"_kj}};

bool isExoscale(const Firmware& firmware) {
  return firmware.product.startsWith("Exoscale");
}

}  // namespace

const Platform kExoscale{.name = "exoscale"_kj,
                         .title = "Exoscale"_kj,
                         .consoles = "tty1 ttyS0"_kj,
                         .config = {"user-data"_kj, "/1.0/user-data"_kj},
                         .facts = kExoscaleFacts,
                         .matches = isExoscale};

// Google Compute Engine: "About VM metadata" and "Predefined metadata keys" of its documentation.
namespace {

constexpr kj::StringPtr kGcpMetadata[] = {"169.254.169.254"_kj, "fd20:ce::254"_kj};

constexpr Header kGcpHeaders[] = {{"Metadata-Flavor"_kj, "Google"_kj}};

constexpr Request kGcpFacts[] = {
    {"project"_kj, "/computeMetadata/v1/project/project-id"_kj, true},
    {"name"_kj, "/computeMetadata/v1/instance/name"_kj, true},
    {"id"_kj, "/computeMetadata/v1/instance/id"_kj, true},
    {"hostname"_kj, "/computeMetadata/v1/instance/hostname"_kj},
    {"zone"_kj, "/computeMetadata/v1/instance/zone"_kj, true},
    {"machine-type"_kj, "/computeMetadata/v1/instance/machine-type"_kj},
    {"preemptible"_kj, "/computeMetadata/v1/instance/scheduling/preemptible"_kj},
    {"interfaces"_kj,
     "/computeMetadata/v1/instance/network-interfaces/?recursive=true&alt=json"_kj}};

bool isGcp(const Firmware& firmware) {
  return firmware.product == "Google Compute Engine" || firmware.serial.startsWith("GoogleCloud-");
}

}  // namespace

const Platform kGcp{
    .name = "gcp"_kj,
    .title = "Google Compute Engine"_kj,
    .consoles = "ttyS0"_kj,
    .metadata = kGcpMetadata,
    .headers = kGcpHeaders,
    .config = {"user-data"_kj, "/computeMetadata/v1/instance/attributes/user-data"_kj},
    .facts = kGcpFacts,
    .matches = isGcp};

// Hetzner Cloud: "Server metadata" of the Hetzner Cloud documentation.
namespace {

constexpr Request kHetznerFacts[] = {
    {"hostname"_kj, "/hetzner/v1/metadata/hostname"_kj},
    {"instance-id"_kj, "/hetzner/v1/metadata/instance-id"_kj, true},
    {"zone"_kj, "/hetzner/v1/metadata/availability-zone"_kj},
    {"public-ipv4"_kj, "/hetzner/v1/metadata/public-ipv4"_kj},
    {"network"_kj, "/hetzner/v1/metadata/network-config"_kj}};

bool isHetzner(const Firmware& firmware) {
  return firmware.vendor == "Hetzner";
}

}  // namespace

const Platform kHetzner{.name = "hcloud"_kj,
                        .title = "Hetzner Cloud"_kj,
                        .consoles = "tty1 ttyS0"_kj,
                        .config = {"userdata"_kj, "/hetzner/v1/userdata"_kj},
                        .encoding = Encoding::kMaybeBase64,
                        .facts = kHetznerFacts,
                        .matches = isHetzner};

// Oracle Cloud Infrastructure: "Instance Metadata" of its documentation, version 2.
namespace {

constexpr kj::StringPtr kOracleMetadata[] = {"169.254.169.254"_kj, "fd00:c1::a9fe:a9fe"_kj};

constexpr Header kOracleHeaders[] = {{"Authorization"_kj, "Bearer Oracle"_kj}};

constexpr Request kOracleFacts[] = {{"instance"_kj, "/opc/v2/instance/"_kj, true},
                                    {"vnics"_kj, "/opc/v2/vnics/"_kj}};

bool isOracle(const Firmware& firmware) {
  return firmware.chassisTag == "OracleCloud.com";
}

}  // namespace

const Platform kOracle{.name = "oracle"_kj,
                       .title = "Oracle Cloud Infrastructure"_kj,
                       .consoles = "tty1 ttyS0"_kj,
                       .metadata = kOracleMetadata,
                       .headers = kOracleHeaders,
                       .config = {"user_data"_kj, "/opc/v2/instance/metadata/user_data"_kj},
                       .encoding = Encoding::kBase64OrNone,
                       .facts = kOracleFacts,
                       .matches = isOracle};

// Scaleway: "Accessing the metadata of an Instance" of its documentation. User data is given only
// to clients whose port is below 1024.
namespace {

constexpr kj::StringPtr kScalewayMetadata[] = {"169.254.42.42"_kj, "fd00:42::42"_kj};

constexpr kj::StringPtr kScalewayServer = "http://169.254.42.42"_kj;

constexpr Request kScalewayFacts[] = {{"metadata"_kj, "/conf?format=json"_kj, true}};

bool isScaleway(const Firmware& firmware) {
  return firmware.vendor == "Scaleway";
}

}  // namespace

const Platform kScaleway{.name = "scaleway"_kj,
                         .title = "Scaleway"_kj,
                         .consoles = "tty1 ttyS0"_kj,
                         .server = kScalewayServer,
                         .metadata = kScalewayMetadata,
                         .config = {"cloud-init"_kj, "/user_data/cloud-init"_kj},
                         .facts = kScalewayFacts,
                         .lowPort = true,
                         .matches = isScaleway};

// UpCloud: "Metadata service" of its documentation.
namespace {

constexpr Request kUpcloudFacts[] = {{"metadata"_kj, "/metadata/v1.json"_kj, true}};

bool isUpcloud(const Firmware& firmware) {
  return firmware.vendor == "UpCloud";
}

}  // namespace

const Platform kUpcloud{.name = "upcloud"_kj,
                        .title = "UpCloud"_kj,
                        .config = {"user_data"_kj, "/metadata/v1/user_data"_kj},
                        .facts = kUpcloudFacts,
                        .matches = isUpcloud};

// Vultr: "Vultr Metadata" of its documentation.
namespace {

constexpr Request kVultrFacts[] = {{"metadata"_kj, "/v1.json"_kj, true}};

bool isVultr(const Firmware& firmware) {
  return firmware.vendor == "Vultr";
}

}  // namespace

const Platform kVultr{.name = "vultr"_kj,
                      .title = "Vultr"_kj,
                      .config = {"user-data"_kj, "/latest/user-data"_kj},
                      .facts = kVultrFacts,
                      .matches = isVultr};

}  // namespace talos::platforms
