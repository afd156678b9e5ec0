#include "common/grpc-messages/field-transforms.h"

#include <sys/stat.h>

#include "common/base/error.h"
#include "common/base/url-secrets.h"
#include "common/grpc-messages/message-shape.h"
#include "common/grpc-messages/request-fields.h"
#include "common/grpc-messages/struct-message.h"
#include "common/net/ip.h"
#include "common/text/ascii.h"

namespace talos::grpcapi {
namespace {

using capnp::DynamicValue;

constexpr int64_t kSecond = 1'000'000'000;

int64_t integerOf(DynamicValue::Reader value) {
  return value.getType() == DynamicValue::INT ? value.as<int64_t>()
                                              : static_cast<int64_t>(value.as<uint64_t>());
}

// Zero is an unknown time.
void encodeTime(uint32_t number, DynamicValue::Reader value, WireWriter& out) {
  auto ns = integerOf(value);
  if (ns != 0) out.bytes(number, timestamp(ns));
}

void encodeSeconds(uint32_t number, DynamicValue::Reader value, WireWriter& out) {
  auto ms = value.as<uint64_t>();
  if (ms != 0) out.fixed64(number, bitsOf(double(ms) / 1000));
}

// Writes the member's name with a capital; our names are in lower case.
void encodeTitle(uint32_t number, DynamicValue::Reader value, WireWriter& out) {
  auto member = value.as<capnp::DynamicEnum>();
  kj::String text;
  KJ_IF_MAYBE (e, member.getEnumerant()) {
    text = kj::str(e->getProto().getName());
    if (isLower(text[0])) text[0] -= 'a' - 'A';
  } else {
    text = kj::str(member.getRaw());
  }
  out.text(number, text);
}

// Converts st_mode to Go's os.FileMode.
uint64_t goMode(mode_t mode) {
  uint64_t bits = mode & 0777;
  switch (mode & S_IFMT) {
    case S_IFDIR:
      bits |= 1u << 31;
      break;
    case S_IFLNK:
      bits |= 1u << 27;
      break;
    case S_IFBLK:
      bits |= 1u << 26;
      break;
    case S_IFCHR:
      bits |= 1u << 26 | 1u << 21;
      break;
    case S_IFIFO:
      bits |= 1u << 25;
      break;
    case S_IFSOCK:
      bits |= 1u << 24;
      break;
  }
  if (mode & S_ISUID) bits |= 1u << 23;
  if (mode & S_ISGID) bits |= 1u << 22;
  if (mode & S_ISVTX) bits |= 1u << 20;
  return bits;
}

void encodeMode(uint32_t number, DynamicValue::Reader value, WireWriter& out) {
  auto mode = goMode(value.as<mode_t>());
  if (mode != 0) out.varint(number, mode);
}

void encodeIsDirectory(uint32_t number, DynamicValue::Reader value, WireWriter& out) {
  if (S_ISDIR(value.as<mode_t>())) out.varint(number, 1);
}

// Encodes netip.Addr and netip.Prefix; nothing for a text that is not valid.
void encodeIp(uint32_t number, DynamicValue::Reader value, WireWriter& out) {
  kj::StringPtr text = value.as<capnp::Text>();
  auto address = Ip::parse(text);
  KJ_IF_MAYBE (prefix, Prefix::parse(text)) address = prefix->address;
  KJ_IF_MAYBE (ip, address) {
    WireWriter message;
    message.bytes(1, ip->bytes());
    out.bytes(number, message.written());
  }
}

void encodePrefix(uint32_t number, DynamicValue::Reader value, WireWriter& out) {
  kj::StringPtr text = value.as<capnp::Text>();
  auto prefix = Prefix::parse(text);
  KJ_IF_MAYBE (ip, Ip::parse(text)) prefix = Prefix::host(*ip);
  KJ_IF_MAYBE (p, prefix) {
    WireWriter message;
    message.bytes(1, p->address.bytes());
    if (p->length > 0) message.varint(2, p->length);
    out.bytes(number, message.written());
  }
}

// Names that are numbers in the gRPC API. Unknown names are left out.
struct NamedNumber {
  kj::StringPtr name;
  uint64_t number;
};
// The kernel shows a socket without a state, of UDP, as closed.
constexpr NamedNumber kTcpStates[] = {
    {""_kj, 7},
    {"ESTABLISHED"_kj, 1},
    {"SYN_SENT"_kj, 2},
    {"SYN_RECV"_kj, 3},
    {"FIN_WAIT1"_kj, 4},
    {"FIN_WAIT2"_kj, 5},
    {"TIME_WAIT"_kj, 6},
    {"CLOSE"_kj, 7},
    {"CLOSE_WAIT"_kj, 8},
    {"LAST_ACK"_kj, 9},
    {"LISTEN"_kj, 10},
    {"CLOSING"_kj, 11},
    {"NEW_SYN_RECV"_kj, 12},
};
constexpr NamedNumber kAlarms[] = {{"NOSPACE"_kj, 1}, {"CORRUPT"_kj, 2}};
constexpr NamedNumber kFamilies[] = {
    {"inet"_kj, 2}, {"inet4"_kj, 2}, {"ipv4"_kj, 2}, {"inet6"_kj, 10}, {"ipv6"_kj, 10}};
constexpr NamedNumber kProtocols[] = {
    {"redirect"_kj, 1}, {"kernel"_kj, 2}, {"boot"_kj, 3},   {"static"_kj, 4},   {"gated"_kj, 8},
    {"ra"_kj, 9},       {"mrt"_kj, 10},   {"zebra"_kj, 11}, {"bird"_kj, 12},    {"dnrouted"_kj, 13},
    {"xorp"_kj, 14},    {"ntk"_kj, 15},   {"dhcp"_kj, 16},  {"mrouted"_kj, 17}, {"babel"_kj, 42}};
constexpr NamedNumber kScopes[] = {{"global"_kj, 0}, {"universe"_kj, 0}, {"site"_kj, 200},
                                   {"link"_kj, 253}, {"host"_kj, 254},   {"nowhere"_kj, 255}};
constexpr NamedNumber kVolumePhases[] = {
    {"failed"_kj, 1},   {"missing"_kj, 2}, {"located"_kj, 3}, {"provisioned"_kj, 4},
    {"prepared"_kj, 5}, {"ready"_kj, 6},   {"closed"_kj, 7}};  // waiting is 0
constexpr NamedNumber kFilesystems[] = {
    {"xfs"_kj, 1}, {"vfat"_kj, 2}, {"ext4"_kj, 3}, {"iso9660"_kj, 4}};
constexpr NamedNumber kEncryptions[] = {{"luks2"_kj, 1}};
constexpr NamedNumber kCacheStatuses[] = {{"disabled"_kj, 1}, {"preparing"_kj, 2}, {"ready"_kj, 3}};
constexpr NamedNumber kCopyStatuses[] = {{"skipped"_kj, 1}, {"copying"_kj, 2}, {"ready"_kj, 3}};
constexpr NamedNumber kRouteTypes[] = {
    {"unicast"_kj, 1},     {"local"_kj, 2},     {"broadcast"_kj, 3},
    {"anycast"_kj, 4},     {"multicast"_kj, 5}, {"blackhole"_kj, 6},
    {"unreachable"_kj, 7}, {"prohibit"_kj, 8},  {"throw"_kj, 9}};
constexpr uint64_t kMainTable = 254;
constexpr NamedNumber kTables[] = {{"default"_kj, 253}, {"main"_kj, kMainTable}, {"local"_kj, 255}};
constexpr NamedNumber kLinkStates[] = {{"notPresent"_kj, 1},     {"down"_kj, 2},
                                       {"lowerLayerDown"_kj, 3}, {"testing"_kj, 4},
                                       {"dormant"_kj, 5},        {"up"_kj, 6}};
constexpr NamedNumber kLinkTypes[] = {{"ether"_kj, 1}, {"loopback"_kj, 772}};
constexpr NamedNumber kMachineTypes[] = {
    {"init"_kj, 1}, {"controlplane"_kj, 2}, {"worker"_kj, 3}, {"join"_kj, 3}};
constexpr NamedNumber kStages[] = {
    {"booting"_kj, 1},   {"installing"_kj, 2},   {"maintenance"_kj, 3}, {"running"_kj, 4},
    {"rebooting"_kj, 5}, {"shuttingDown"_kj, 6}, {"resetting"_kj, 7},   {"upgrading"_kj, 8}};
// The interface flags that Talos sends.
constexpr NamedNumber kInterfaceFlags[] = {{"UP"_kj, 1},
                                           {"BROADCAST"_kj, 2},
                                           {"LOOPBACK"_kj, 4},
                                           {"POINTTOPOINT"_kj, 8},
                                           {"MULTICAST"_kj, 16}};

uint64_t numberOf(kj::ArrayPtr<const NamedNumber> numbers, kj::StringPtr text) {
  for (auto& known : numbers) {
    if (known.name == text) return known.number;
  }
  return text.tryParseAs<uint32_t>().orDefault(0);  // a protocol without a name
}

template <const auto& numbers>
void encodeNumber(uint32_t number, DynamicValue::Reader value, WireWriter& out) {
  kj::StringPtr text;
  if (value.getType() == DynamicValue::ENUM) {
    KJ_IF_MAYBE (e, value.as<capnp::DynamicEnum>().getEnumerant()) {
      text = e->getProto().getName();
    }
  } else {
    text = value.as<capnp::Text>();
  }
  auto found = numberOf(kj::arrayPtr(numbers, kj::size(numbers)), text);
  if (found != 0) out.varint(number, found);
}

// A table of routes: "main", or its number. Without a text it is the main one.
void encodeTable(uint32_t number, DynamicValue::Reader value, WireWriter& out) {
  kj::StringPtr text = value.as<capnp::Text>();
  uint64_t found = text.size() == 0 ? kMainTable : numberOf(kTables, text);
  out.varint(number, found != 0 ? found : text.tryParseAs<uint32_t>().orDefault(0));
}

void encodeFlags(uint32_t number, DynamicValue::Reader value, WireWriter& out) {
  uint64_t mask = 0;
  for (auto flag : itemsOf(value.as<capnp::DynamicList>())) {
    mask |= numberOf(kInterfaceFlags, flag.as<capnp::Text>());
  }
  if (mask != 0) out.varint(number, mask);
}

// Encodes start and stop: our enum has another member before them.
void encodeAction(uint32_t number, DynamicValue::Reader value, WireWriter& out) {
  auto action = value.as<capnp::DynamicEnum>().getRaw();
  if (action > 1) out.varint(number, action - 1);
}

// Writes the member's name in the schema.
void encodeEnumName(uint32_t number, DynamicValue::Reader value, WireWriter& out) {
  KJ_IF_MAYBE (e, value.as<capnp::DynamicEnum>().getEnumerant()) {
    out.text(number, e->getProto().getName());
  }
}

// Writes "undefined" for the version of a resource that does not exist.
void encodeVersion(uint32_t number, DynamicValue::Reader value, WireWriter& out) {
  auto version = value.as<uint64_t>();
  out.text(number, version == 0 ? kj::str("undefined") : kj::str(version));
}

// Encodes a condition that keeps a machine from being ready: 1 name, 2 reason.
void encodeCondition(uint32_t number, DynamicValue::Reader value, WireWriter& out) {
  WireWriter message;
  message.text(1, "machine");
  message.text(2, value.as<capnp::Text>());
  out.bytes(number, message.written());
}

// Encodes a Kubernetes object, which we have as YAML.
void encodeStruct(uint32_t number, DynamicValue::Reader value, WireWriter& out) {
  out.bytes(number, structMessage(value.as<capnp::Text>()));
}

// Encodes only the name of a struct.
void encodeName(uint32_t number, DynamicValue::Reader value, WireWriter& out) {
  out.text(number, value.as<capnp::DynamicStruct>().get("name").as<capnp::Text>());
}

void decodeMs(const WireField& from, capnp::StructSchema::Field field,
              capnp::DynamicStruct::Builder into) {
  into.set(field, uint64_t(kj::max(nanosecondsOf(from.bytes), int64_t(0))) / 1'000'000);
}

void decodeSeconds(const WireField& from, capnp::StructSchema::Field field,
                   capnp::DynamicStruct::Builder into) {
  into.set(field, uint64_t(kj::max(nanosecondsOf(from.bytes), int64_t(0)) / kSecond));
}

void decodeHex(const WireField& from, capnp::StructSchema::Field field,
               capnp::DynamicStruct::Builder into) {
  into.set(field, capnp::Text::Reader(kj::str(kj::hex(from.value))));
}

// Our depth is unsigned; a negative number means no limit.
void decodeDepth(const WireField& from, capnp::StructSchema::Field field,
                 capnp::DynamicStruct::Builder into) {
  into.set(field, uint32_t(kj::max(int32_t(from.value), 0)));
}

// The query of a URL may be a secret, so it is put into a $secret field, which is never logged.
void decodeImage(const WireField& from, capnp::StructSchema::Field field,
                 capnp::DynamicStruct::Builder into) {
  auto image = splitImageName(textOf(from));
  into.set(field, capnp::Text::Reader(image.name));
  into.set("query", capnp::Text::Reader(image.query));
}

constexpr Transform kTransforms[] = {
    {"time"_kj, encodeTime},
    {"seconds"_kj, encodeSeconds},
    {"title"_kj, encodeTitle},
    {"mode"_kj, encodeMode},
    {"isDirectory"_kj, encodeIsDirectory},
    {"ip"_kj, encodeIp},
    {"prefix"_kj, encodePrefix},
    {"tcpState"_kj, encodeNumber<kTcpStates>},
    {"alarm"_kj, encodeNumber<kAlarms>},
    {"family"_kj, encodeNumber<kFamilies>},
    {"protocol"_kj, encodeNumber<kProtocols>},
    {"scope"_kj, encodeNumber<kScopes>},
    {"routeType"_kj, encodeNumber<kRouteTypes>},
    {"table"_kj, encodeTable},
    {"linkState"_kj, encodeNumber<kLinkStates>},
    {"linkType"_kj, encodeNumber<kLinkTypes>},
    {"machineType"_kj, encodeNumber<kMachineTypes>},
    {"stage"_kj, encodeNumber<kStages>},
    {"volumePhase"_kj, encodeNumber<kVolumePhases>},
    {"filesystem"_kj, encodeNumber<kFilesystems>},
    {"encryption"_kj, encodeNumber<kEncryptions>},
    {"cacheStatus"_kj, encodeNumber<kCacheStatuses>},
    {"copyStatus"_kj, encodeNumber<kCopyStatuses>},
    {"struct"_kj, encodeStruct},
    {"name"_kj, encodeName},
    {"action"_kj, encodeAction},
    {"enumName"_kj, encodeEnumName},
    {"version"_kj, encodeVersion},
    {"condition"_kj, encodeCondition},
    {"flags"_kj, encodeFlags, nullptr, WireType::kVarint, true},
    {"ms"_kj, nullptr, decodeMs, WireType::kBytes},
    {"s"_kj, nullptr, decodeSeconds, WireType::kBytes},
    {"image"_kj, nullptr, decodeImage, WireType::kBytes},
    {"hex"_kj, nullptr, decodeHex},
    {"depth"_kj, nullptr, decodeDepth},
};

}  // namespace

const Transform& findTransform(kj::StringPtr name) {
  for (auto& transform : kTransforms) {
    if (transform.name == name) return transform;
  }
  fail(ErrorKind::kInternal, kj::str("unknown transform ", name));
}

kj::Array<kj::byte> timestamp(int64_t ns) {
  auto seconds = ns / kSecond, rest = ns % kSecond;
  if (rest < 0) {
    --seconds;
    rest += kSecond;
  }
  WireWriter out;
  if (seconds != 0) out.varint(1, signExtended(seconds));
  if (rest != 0) out.varint(2, signExtended(rest));
  return out.finish();
}

int64_t nanosecondsOf(Bytes message) {
  int64_t seconds = 0, rest = 0, product, sum;
  WireReader reader(message);
  for (;;) {
    KJ_IF_MAYBE (field, reader.next()) {
      if (field->type != WireType::kVarint) continue;
      if (field->number == 1) seconds = static_cast<int64_t>(field->value);
      if (field->number == 2) rest = static_cast<int32_t>(field->value);
    } else {
      break;
    }
  }
  if (__builtin_mul_overflow(seconds, kSecond, &product) ||
      __builtin_add_overflow(product, rest, &sum)) {
    fail(ErrorKind::kInvalidArgument, kj::str(seconds, " s are more than 292 years"));
  }
  return sum;
}

}  // namespace talos::grpcapi
