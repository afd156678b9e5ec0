// The platforms that a machine may be on: how each is recognized, and where its machine config and
// its facts are.
//
// A platform is a value of this table, in a file of its own that quotes the provider's public
// document. Nothing here opens a file or a connection: the brain fetches what a platform names, and
// a confined process reads the answers (machined/platforms/readers).
//
// An absent answer means the same everywhere: 404 and an empty body are "there is none". Without a
// machine config the node enters maintenance mode; a fact is empty. Every other failure is one of
// the network or the service, and is tried again.
#pragma once

#include <kj/array.h>
#include <kj/string.h>

namespace talos::platforms {

constexpr kj::StringPtr kMetadataServer = "http://169.254.169.254"_kj;
// Where pods are not to reach it. Link-local addresses of IPv6 are not forwarded anyway.
constexpr kj::StringPtr kMetadataAddress[] = {"169.254.169.254"_kj};
constexpr kj::StringPtr kOvfFile = "ovf-env.xml"_kj;  // of a disc with an OVF environment

// As the firmware states it: SMBIOS types 1 to 3 (/sys/class/dmi/id).
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
  // For servers that do not know the version in `target` and answer 400.
  kj::StringPtr olderTarget = ""_kj;
  kj::StringPtr server = ""_kj;  // empty: that of the platform
};

// A request before all others, whose answer is a header of each of them.
struct Token {
  kj::StringPtr target;  // with PUT
  Header lifetime;
  kj::StringPtr header;
  bool list = false;      // the answer is a JSON list with the token
  bool optional = false;  // 403, 404 and 405: the service works without
};

// How a machine config is written in its answer; gzip may be below all of them.
enum class Encoding {
  kPlain,
  kBase64,          // anything else is an error
  kMaybeBase64,     // if all of it decodes
  kBase64OrNone,    // anything else counts as no config
  kContext,         // USER_DATA of OpenNebula's context.sh; base64 as USERDATA_ENCODING there says
  kOvfEnvironment,  // base64 in the element CustomData of Azure's ovf-env.xml
  kOvfProperties    // base64 in a property of an OVF environment (readers/vmware.h)
};

// Where the machine config is.
enum class Place {
  kServer,    // of the platform; before it is asked, in the volume with the platform's label
  kDisc,      // the file `config.target` of a disc, whatever its label
  kGuestInfo  // variables of the virtual machine, which its hypervisor gives; else a disc as above
};

// To platforms that count a machine as provisioned once it says that it is ready: the body of the
// report answers a goal state (machined/platforms/readers/azure.h).
struct ReadyReport {
  kj::StringPtr server, goalState, health;  // GET of the first target, POST to the second
  kj::ArrayPtr<const Header> headers;
};

struct Platform {
  kj::StringPtr name;   // talos.platform=
  kj::StringPtr title;  // "Amazon EC2"
  // Of the kernel, with blanks between them; the last one is /dev/console. Empty: the kernel's own.
  kj::StringPtr consoles = ""_kj;
  kj::StringPtr server = kMetadataServer;
  // Of the services that state the machine's config, facts or secrets, also those that this system
  // does not ask; without those that have a name only.
  kj::ArrayPtr<const kj::StringPtr> metadata = kMetadataAddress;
  kj::ArrayPtr<const Header> headers = nullptr;
  const Token* token = nullptr;
  Place place = Place::kServer;
  Request config = {};
  Encoding encoding = Encoding::kPlain;
  kj::ArrayPtr<const Request> facts = nullptr;
  // The label of a volume with these files, which is looked for before the server is asked.
  kj::StringPtr volume = ""_kj;
  bool lowPort = false;  // the client's port has to be below 1024
  const ReadyReport* report = nullptr;
  bool dhcpMtu = true;  // false: its DHCP servers do not answer who asks for option 26
  bool (*matches)(const Firmware& firmware) = nullptr;
};

// Names of machines that no platform describes.
constexpr kj::StringPtr kMetal = "metal"_kj, kContainer = "container"_kj;

kj::ArrayPtr<const Platform* const> all();
// By its name, or one that the original also has ("packet"). None: unknown.
kj::Maybe<const Platform&> called(kj::StringPtr name);
// The error of a talos.platform= that is neither a platform nor one of the two names above, with
// those that would be right. None: it is one of them.
kj::Maybe<kj::String> nameProblem(kj::StringPtr name);
// None: the firmware is that of no platform, or of several.
kj::Maybe<const Platform&> recognized(const Firmware& firmware);

extern const Platform kAkamai, kAws, kAzure, kCloudstack, kDigitalOcean, kEquinixMetal, kExoscale,
    kGcp, kHetzner, kNocloud, kOpennebula, kOpenstack, kOracle, kScaleway, kUpcloud, kVmware,
    kVultr;

}  // namespace talos::platforms
