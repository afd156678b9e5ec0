#include "machined/disk/encryption/state-keys-in-meta.h"

#include "common/base/error.h"
#include "common/disk/sealed-key-names.h"
#include "common/memory/secret-array.h"
#include "common/memory/secret-buffer.h"
#include "common/net/http-url.h"
#include "machined/disk/encryption/node-id-passphrase.h"

namespace talos::machined {
namespace {

constexpr auto kProvider = "luks2"_kj, kCipher = "aes-xts-plain64"_kj;

bool isNodeKey(config::EncryptionKey::Reader key) {
  return key.hasNodeID() && !key.hasStatic();
}

// Reports the position, and not the text, which may be a passphrase.
[[noreturn]] void refuseText(kj::StringPtr where) {
  fail(ErrorKind::kInvalidArgument, kj::str("the keys of STATE in META are not valid", where));
}

// JSON (RFC 8259), parsed in one pass: each call takes an element of its kind, or refuses the text.
// It parses no more than this list needs; a full parser is not in the brain.
class Json {
 public:
  explicit Json(kj::ArrayPtr<const char> text) : text(text) {}

  // `field` parses the value.
  void object(kj::FunctionParam<void(kj::StringPtr key)> field) {
    Level level(*this);
    take('{');
    for (bool more = !isNext('}'); more; more = isTaken(',')) {
      auto key = string();
      take(':');
      field(key);
    }
    take('}');
  }
  void array(kj::FunctionParam<void()> item) {
    Level level(*this);
    take('[');
    for (bool more = !isNext(']'); more; more = isTaken(',')) item();
    take(']');
  }
  bool isNull() { return matches("null"); }
  bool boolean() {
    if (matches("true")) return true;
    if (!matches("false")) refuse();
    return false;
  }
  kj::String string() {
    take('"');
    SecretBuffer out;
    while (at < text.size() && text[at] != '"') {
      if (static_cast<unsigned char>(text[at]) < ' ') refuse();
      if (text[at] == '\\') {
        escape(out);
      } else {
        out.add(text.slice(at, at + 1));
        ++at;
      }
    }
    take('"');
    return out.copyText();
  }
  uint32_t number() {
    skipSpace();
    size_t begin = at;
    uint32_t value = 0;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
      if (at - begin == 9) refuse();
      value = 10 * value + static_cast<uint32_t>(text[at] - '0');
    }
    if (at == begin) refuse();
    return value;
  }
  void skip() {
    if (isNext('{')) return object([this](kj::StringPtr) { skip(); });
    if (isNext('[')) return array([this]() { skip(); });
    if (isNext('"')) {
      auto text = string();
      return zeroize(text.asArray());
    }
    if (isNull() || matches("true") || matches("false")) return;
    size_t begin = at;
    while (at < text.size() && kj::StringPtr("+-.0123456789eE").findFirst(text[at]) != nullptr)
      ++at;
    if (at == begin) refuse();
  }
  void end() {
    skipSpace();
    if (at < text.size()) refuse();
  }
  [[noreturn]] void refuse() { refuseText(kj::str(" at byte ", at)); }

 private:
  static constexpr unsigned kMostLevels = 16;
  kj::ArrayPtr<const char> text;
  size_t at = 0;
  unsigned depth = 0;

  class Level {
   public:
    explicit Level(Json& json) : json(json) {
      if (++json.depth > kMostLevels) json.refuse();
    }
    ~Level() { --json.depth; }
    KJ_DISALLOW_COPY_AND_MOVE(Level);

   private:
    Json& json;
  };

  void skipSpace() {
    while (at < text.size() && kj::StringPtr(" \t\r\n").findFirst(text[at]) != nullptr) ++at;
  }
  bool isNext(char c) {
    skipSpace();
    return at < text.size() && text[at] == c;
  }
  bool isTaken(char c) {
    bool found = isNext(c);
    at += found ? 1 : 0;
    return found;
  }
  void take(char c) {
    if (!isTaken(c)) refuse();
  }
  bool matches(kj::StringPtr token) {
    skipSpace();
    bool found = text.size() - at >= token.size() && text.slice(at, at + token.size()) == token;
    at += found ? token.size() : 0;
    return found;
  }
  unsigned hexadecimal() {
    unsigned value = 0;
    for (int i = 0; i < 4; ++i, ++at) {
      constexpr auto kDigits = "0123456789abcdefABCDEF"_kj;
      auto digit = at < text.size() ? kDigits.findFirst(text[at]) : nullptr;
      if (digit == nullptr) refuse();
      auto n = static_cast<unsigned>(KJ_ASSERT_NONNULL(digit));
      value = 16 * value + (n < 16 ? n : n - 6);
    }
    return value;
  }
  void escape(SecretBuffer& out) {
    constexpr kj::StringPtr kNames = "\"\\/bfnrt"_kj, kMeant = "\"\\/\b\f\n\r\t"_kj;
    if (++at == text.size()) refuse();
    if (text[at] == 'u') {
      ++at;
      return addCharacter(out);
    }
    KJ_IF_MAYBE (which, kNames.findFirst(text[at])) {
      out.add(kMeant.slice(*which, *which + 1));
      ++at;
    } else {
      refuse();
    }
  }
  void addCharacter(SecretBuffer& out) {
    uint32_t c = hexadecimal();
    if (c >= 0xd800 && c < 0xdc00) {
      if (at + 2 > text.size() || text[at] != '\\' || text[at + 1] != 'u') refuse();
      at += 2;
      uint32_t low = hexadecimal();
      if (low < 0xdc00 || low > 0xdfff) refuse();
      c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    } else if (c >= 0xdc00 && c < 0xe000) {
      refuse();
    }
    auto add = [&](uint32_t byte) {
      auto one = static_cast<char>(byte);
      out.add(kj::arrayPtr(&one, 1));
    };
    auto rest = [&](unsigned shift) { add(0x80 | ((c >> shift) & 0x3f)); };
    if (c < 0x80) return add(c);
    if (c < 0x800) {
      add(0xc0 | c >> 6);
    } else if (c < 0x10000) {
      add(0xe0 | c >> 12);
      rest(6);
    } else {
      add(0xf0 | c >> 18);
      rest(12);
      rest(6);
    }
    rest(0);
  }
};

// Returns a string of JSON that keeps each byte of a passphrase and leaves no copy of it in memory;
// jsonString() does neither.
kj::String secretJsonString(kj::StringPtr text) {
  constexpr auto kDigits = "0123456789abcdef"_kj;
  SecretBuffer out;
  out.add("\""_kj);
  for (char c : text) {
    if (static_cast<unsigned char>(c) < ' ') {
      out.add("\\u00"_kj);
      out.add(kDigits.slice(c >> 4, (c >> 4) + 1));
      out.add(kDigits.slice(c & 15, (c & 15) + 1));
      continue;
    }
    if (c == '"' || c == '\\') out.add("\\"_kj);
    out.add(kj::arrayPtr(&c, 1));
  }
  out.add("\""_kj);
  return out.copyText();
}

struct StateKey {
  unsigned slot = 0;
  bool nodeId = false, tpm = false, secureBoot = false;
  kj::Maybe<kj::Vector<unsigned>> pcrs;  // of the TPM; nullptr: the default
  kj::String endpoint;                   // of a key server; empty: another kind
  kj::Maybe<kj::String> text;
};
struct StateList {
  kj::Vector<StateKey> keys;
  kj::Vector<kj::String> options;
  ~StateList() noexcept(false) {
    for (auto& key : keys) {
      KJ_IF_MAYBE (text, key.text) zeroize(text->asArray());
    }
  }
};

void readStatic(Json& json, StateKey& key) {
  if (json.isNull()) return;
  json.object([&](kj::StringPtr name) {
    if (name != "KeyData") return json.skip();
    KJ_IF_MAYBE (twice, key.text) zeroize(twice->asArray());
    key.text = json.string();
  });
  if (key.text == nullptr) key.text = kj::String();
}

void readPcrs(Json& json, StateKey& key) {
  if (json.isNull()) return;
  auto& pcrs = key.pcrs.emplace();
  json.object([&](kj::StringPtr name) {
    if (name != "PCRs") return json.skip();
    if (json.isNull()) return;
    json.array([&]() {
      auto pcr = json.number();
      if (pcr >= kPcrs || pcrs.size() >= kPcrs) json.refuse();
      pcrs.add(pcr);
    });
  });
}

void readTpm(Json& json, StateKey& key) {
  if (json.isNull()) return;
  key.tpm = true;
  json.object([&](kj::StringPtr name) {
    if (name == "TPMOptions") {
      readPcrs(json, key);
    } else if (name == "TPMCheckSecurebootStatusOnEnroll") {
      key.secureBoot = json.boolean();
    } else {
      json.skip();
    }
  });
}

void readKms(Json& json, StateKey& key) {
  if (json.isNull()) return;
  json.object([&](kj::StringPtr name) {
    if (name != "KMSEndpoint") return json.skip();
    key.endpoint = json.string();
  });
  if (parseGrpcEndpoint(key.endpoint) == nullptr) json.refuse();
}

void readKey(Json& json, StateList& list) {
  auto& key = list.keys.add();
  json.object([&](kj::StringPtr name) {
    if (name == "KeyStatic") {
      readStatic(json, key);
    } else if (name == "KeyNodeID") {
      key.nodeId = !json.isNull();
      if (key.nodeId) json.skip();
    } else if (name == "KeyKMS") {
      readKms(json, key);
    } else if (name == "KeyTPM") {
      readTpm(json, key);
    } else if (name == "KeySlot") {
      key.slot = json.number();
    } else {
      json.skip();
    }
  });
  if (list.keys.size() > kKeySlots) json.refuse();
}

// Reads one of two keywords.
void readKind(Json& json, kj::StringPtr only) {
  if (json.isNull()) return;
  auto text = json.string();
  if (text.size() > 0 && text != only) json.refuse();
}

void readList(Json& json, StateList& list) {
  json.object([&](kj::StringPtr name) {
    if (name == "EncryptionKeys") {
      if (!json.isNull()) json.array([&]() { readKey(json, list); });
    } else if (name == "EncryptionPerfOptions") {
      if (!json.isNull()) json.array([&]() { list.options.add(json.string()); });
    } else if (name == "EncryptionProvider") {
      readKind(json, kProvider);
    } else if (name == "EncryptionCipher") {
      readKind(json, kCipher);
    } else {
      json.skip();
    }
  });
  json.end();
}

// Leaves out the machine's own key if its UUID is too weak.
void copy(const StateList& in, kj::StringPtr uuid, config::Encryption::Builder out) {
  auto options = out.initOptions(static_cast<unsigned>(in.options.size()) + 1);
  for (unsigned i = 0; i < in.options.size(); ++i) options.set(i, in.options[i]);
  options.set(options.size() - 1, kReadableInMeta);  // because they are in META
  bool own = weaknessOf(uuid) == nullptr;
  auto isLeft = [&](const StateKey& key) { return key.text == nullptr && key.nodeId && !own; };
  unsigned count = 0, i = 0;
  for (auto& key : in.keys) count += isLeft(key) ? 0 : 1;
  auto keys = out.initKeys(count);
  for (auto& from : in.keys) {
    if (isLeft(from)) continue;
    auto to = keys[i++];
    to.setSlot(from.slot);
    KJ_IF_MAYBE (text, from.text) {
      to.initStatic().setPassphrase(*text);
    } else if (from.nodeId) {
      to.initNodeID();
    } else if (from.endpoint.size() > 0) {
      to.initKms().setEndpoint(from.endpoint);
    } else if (from.tpm) {
      auto tpm = to.initTpm();
      tpm.setCheckSecurebootStatusOnEnroll(from.secureBoot);
      KJ_IF_MAYBE (pcrs, from.pcrs) {
        auto list = tpm.initOptions().initPcrs(static_cast<unsigned>(pcrs->size()));
        for (unsigned j = 0; j < pcrs->size(); ++j) list.set(j, (*pcrs)[j]);
      }
    }
  }
}

}  // namespace

namespace {

kj::String tpmText(config::EncryptionKey::Reader key) {
  auto tpm = key.getTpm();
  auto pcrs = KJ_MAP(pcr, tpm.getOptions().getPcrs()) {
    return kj::str(pcr);
  };
  auto list = tpm.hasOptions() ? kj::strArray(pcrs, ",") : kj::str(kDefaultPcr);
  return kj::str(R"({"KeyStatic":null,"KeyNodeID":null,"KeyTPM":{"TPMOptions":{"PCRs":[)", list,
                 R"(]},"TPMCheckSecurebootStatusOnEnroll":)",
                 tpm.getCheckSecurebootStatusOnEnroll(), R"(},"KeySlot":)", key.getSlot(), "}");
}

kj::String kmsText(config::EncryptionKey::Reader key) {
  return kj::str(R"({"KeyStatic":null,"KeyNodeID":null,"KeyKMS":{"KMSEndpoint":)",
                 secretJsonString(key.getKms().getEndpoint()), R"(},"KeySlot":)", key.getSlot(),
                 "}");
}

}  // namespace

bool needsStateKeys(config::Encryption::Reader encryption) {
  for (auto key : encryption.getKeys()) {
    if (isNodeKey(key)) return false;
  }
  return true;
}

kj::Array<kj::byte> stateKeysText(config::Encryption::Reader encryption) {
  bool readable = isReadableInMeta(encryption);
  kj::Vector<kj::String> keys, options;
  KJ_DEFER(for (auto& key : keys) zeroize(key));
  for (auto key : encryption.getKeys()) {
    if (isNodeKey(key)) {
      keys.add(kj::str(R"({"KeyStatic":null,"KeyNodeID":{},"KeySlot":)", key.getSlot(), "}"));
    } else if (key.hasKms() && !key.hasStatic()) {
      keys.add(kmsText(key));
    } else if (key.hasTpm() && !key.hasStatic()) {
      keys.add(tpmText(key));
    } else if (key.hasStatic() && readable) {
      auto text = secretJsonString(key.getStatic().getPassphrase());
      KJ_DEFER(zeroize(text.asArray()));
      keys.add(kj::str(R"({"KeyStatic":{"KeyData":)", text, R"(},"KeyNodeID":null,"KeySlot":)",
                       key.getSlot(), "}"));
    }
  }
  for (auto option : encryption.getOptions()) {
    if (option != kReadableInMeta) options.add(secretJsonString(option));
  }
  auto list = kj::strArray(keys, ",");
  KJ_DEFER(zeroize(list));
  auto text = kj::str(R"({"EncryptionProvider":")", kProvider, R"(","EncryptionKeys":[)", list,
                      R"(],"EncryptionCipher":")", kCipher, "\"",
                      options.size() == 0 ? kj::str()
                                          : kj::str(R"(,"EncryptionPerfOptions":[)",
                                                    kj::strArray(options, ","), "]"),
                      "}");
  KJ_DEFER(zeroize(text));
  return secretArray(text.asBytes());
}

VolumeSettings readStateKeys(kj::ArrayPtr<const kj::byte> text, kj::StringPtr uuid) {
  if (text.size() > kMostStateKeys) {
    refuseText(kj::str(": ", text.size(), " bytes are more than ", kMostStateKeys));
  }
  Json json(text.asChars());
  StateList list;
  readList(json, list);
  SecretMessage wanted;
  auto out = wanted.initRoot<config::Encryption>();
  copy(list, uuid, out);
  return settingsOf(out, kStateName, uuid);
}

}  // namespace talos::machined
