// The platforms that a machine may run on: how each is recognized, and where its machine config and
// its facts are.
//
// A platform is a value of this table, in public-clouds.cc, private-clouds.cc or nocloud.cc, beside
// the name of the provider's public document. This code opens no file and no connection: the brain
// fetches the sources that a platform names, and a confined process parses the answers
// (machined/platforms/readers).
//
// On all platforms, 404 and an empty body mean that the answer does not exist. Without a machine
// config the node enters maintenance mode; a missing fact is empty. Every other failure is a
// failure of the network or the service, and is retried.
#pragma once

#include <kj/array.h>
#include <kj/string.h>

namespace talos::platforms {

constexpr kj::StringPtr kMetadataServer = "http://169.254.169.254"_kj;
// The addresses that pods must not reach. Link-local addresses of IPv6 are not forwarded anyway.
constexpr kj::StringPtr kMetadataAddress[] = {"169.254.169.254"_kj};
constexpr kj::StringPtr kOvfFile = "ovf-env.xml"_kj;  // on a disc with an OVF environment

// Identifiers from the firmware: SMBIOS types 1 to 3 (/sys/class/dmi/id).
struct Firmware {
  kj::String vendor, product, serial, uuid;  // of the system; the UUID in lower case
  kj::String chassisTag;                     // its asset tag
};

struct Header {
  kj::StringPtr name, value;
};

struct Request {
  kj::StringPtr name;    // of its answer
  kj::StringPtr target;  // path and query; or a file of the volume
  bool required = false;
  // For servers that answer 400 because they do not know the version in `target`.
  kj::StringPtr olderTarget = ""_kj;
  kj::StringPtr server = ""_kj;  // empty: the platform's server
};

// A request before all others; its answer becomes a header of each of them.
struct Token {
  kj::StringPtr target;  // with PUT
  Header lifetime;
  kj::StringPtr header;
  bool list = false;      // the answer is a JSON list with the token
  bool optional = false;  // 403, 404 and 405: the service works without
};

// The encoding of a machine config in its answer; gzip may be inside each of them.
enum class Encoding {
  kPlain,
  kBase64,          // anything else is an error
  kMaybeBase64,     // if all of it decodes
  kBase64OrNone,    // anything else counts as a missing config
  kContext,         // USER_DATA of OpenNebula's context.sh; base64 if its USERDATA_ENCODING says so
  kOvfEnvironment,  // base64 in the element CustomData of Azure's ovf-env.xml
  kOvfProperties    // base64 in a property of an OVF environment (readers/file-platforms.h)
};

// The place of the machine config.
enum class Place {
  kServer,    // the platform's server; before it, the volume with the platform's label
  kDisc,      // the file `config.target` of a disc with any label
  kGuestInfo  // variables that the hypervisor gives the virtual machine; else a disc as above
};

// For platforms that count a machine as provisioned once it reports that it is ready: the report's
// body answers a goal state (machined/platforms/readers/file-platforms.h).
struct ReadyReport {
  kj::StringPtr server, goalState, health;  // GET of the first target, POST to the second
  kj::ArrayPtr<const Header> headers;
};

struct Platform {
  kj::StringPtr name;   // talos.platform=
  kj::StringPtr title;  // "Amazon EC2"
  // Consoles of the kernel, separated by blanks; the last one is /dev/console. Empty: the kernel's
  // own.
  kj::StringPtr consoles = ""_kj;
  kj::StringPtr server = kMetadataServer;
  // Addresses of the services that state the machine's config, facts or secrets, including services
  // that this system does not use; without services that have only a name.
  kj::ArrayPtr<const kj::StringPtr> metadata = kMetadataAddress;
  kj::ArrayPtr<const Header> headers = nullptr;
  const Token* token = nullptr;
  Place place = Place::kServer;
  Request config = {};
  Encoding encoding = Encoding::kPlain;
  kj::ArrayPtr<const Request> facts = nullptr;
  // Label of a volume with these files, which is looked for before the server is contacted.
  kj::StringPtr volume = ""_kj;
  bool lowPort = false;  // the client's port must be below 1024
  const ReadyReport* report = nullptr;
  bool dhcpMtu = true;  // false: its DHCP servers do not answer requests with option 26
  bool (*matches)(const Firmware& firmware) = nullptr;
};

// Names of machines that no platform describes.
constexpr kj::StringPtr kMetal = "metal"_kj, kContainer = "container"_kj;

kj::ArrayPtr<const Platform* const> all();
// Returns the platform by its name, or by a name that Talos also accepts ("packet"); nullptr
// if unknown.
kj::Maybe<const Platform&> called(kj::StringPtr name);
// Returns the error of a talos.platform= that is neither a platform nor one of the two names above,
// with the valid names; nullptr if it is valid.
kj::Maybe<kj::String> nameProblem(kj::StringPtr name);
// Returns nullptr if no platform, or several, match the firmware.
kj::Maybe<const Platform&> recognized(const Firmware& firmware);

extern const Platform kAkamai, kAws, kAzure, kCloudstack, kDigitalOcean, kEquinixMetal, kExoscale,
    kGcp, kHetzner, kNocloud, kOpennebula, kOpenstack, kOracle, kScaleway, kUpcloud, kVmware,
    kVultr;

}  // namespace talos::platforms
