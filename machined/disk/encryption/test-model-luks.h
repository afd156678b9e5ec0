// A LUKS header in memory, with the rules of machined/disk/luks/luks-device.h; and keys for it.
#pragma once

#include <capnp/message.h>

#include <map>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "machined/disk/encryption/luks-client.h"

namespace talos::machined {

using PassphrasesOfSlots = std::map<unsigned, std::string>;

inline VolumeSettings staticKeys(kj::StringPtr label, const PassphrasesOfSlots& keys) {
  VolumeSettings settings;
  settings.label = kj::str(label);
  for (auto& [slot, passphrase] : keys) {
    settings.keys.add(slot, KeyKind::kStatic,
                      kj::heapArray<kj::byte>(kj::StringPtr(passphrase.c_str()).asBytes()));
  }
  return settings;
}

// A list with a key of the TPM at slot 0, and passphrases at others.
inline VolumeSettings sealedKeys(kj::StringPtr label, const PassphrasesOfSlots& others,
                                 std::initializer_list<unsigned> pcrs = {7}) {
  auto settings = staticKeys(label, others);
  kj::Vector<VolumeKey> keys;
  VolumeKey tpm(0, KeyKind::kTpm, nullptr);
  tpm.sealing = Sealing{kj::heapArray<unsigned>(pcrs), false, kj::String()};
  keys.add(kj::mv(tpm));
  for (auto& key : settings.keys) keys.add(key.clone());
  return withKeys(settings, kj::mv(keys));
}

// The same with a key of this server at slot 0.
inline VolumeSettings serverKeys(kj::StringPtr label, const PassphrasesOfSlots& others,
                                 kj::StringPtr endpoint = "kms.example.org:4050") {
  auto settings = staticKeys(label, others);
  kj::Vector<VolumeKey> keys;
  VolumeKey kms(0, KeyKind::kKms, nullptr);
  kms.sealing.emplace().endpoint = kj::str(endpoint);
  keys.add(kj::mv(kms));
  for (auto& key : settings.keys) keys.add(key.clone());
  return withKeys(settings, kj::mv(keys));
}

// A volume's keys as in a config: passphrases by slot. "": the machine's own key; "*": a recovery
// key, which the node does not have; "@": a key of the TPM; "%": of a key server; "!x": x, and
// static keys are readable in META.
struct EncryptionRequest {
  capnp::MallocMessageBuilder message;
  config::Encryption::Builder root = message.initRoot<config::Encryption>();
  explicit EncryptionRequest(const PassphrasesOfSlots& wanted) {
    auto keys = root.initKeys(static_cast<unsigned>(wanted.size()));
    unsigned i = 0;
    bool readable = false;
    for (auto& [slot, passphrase] : wanted) {
      auto key = keys[i++];
      key.setSlot(slot);
      if (passphrase.empty()) {
        key.initNodeID();
      } else if (passphrase == "*") {
        key.initRecovery();
      } else if (passphrase == "@") {
        key.initTpm();
      } else if (passphrase == "%") {
        key.initKms().setEndpoint("kms.example.org:4050");
      } else {
        bool marked = passphrase[0] == '!';
        key.initStatic().setPassphrase(passphrase.c_str() + (marked ? 1 : 0));
        readable = readable || marked;
      }
    }
    if (readable) root.initOptions(1).set(0, kReadableInMeta);
  }
  kj::Maybe<config::Encryption::Reader> get() { return root.asReader(); }
};

struct ModelLuks final : public Luks {
  Content content = Content::EMPTY;
  std::map<unsigned, std::string> slots;
  std::map<unsigned, std::string> tokens;  // UserData, by slot
  // The TPM: what it unseals, by UserData, and why it does not.
  std::map<std::string, std::vector<unsigned>> sealed;
  std::map<std::string, std::string> secrets;
  std::string tpmProblem;
  // The key server: why it does not answer, whether it answers with another key as for an unknown
  // machine, and the number of its calls.
  std::string kmsProblem;
  bool kmsForgot = false;
  unsigned kmsAsked = 0;
  std::string problem, mapped;
  bool fresh = false;
  bool spoils = false;  // add() stores another key
  unsigned failAt = 0;  // the call with this number fails, counted from 1
  bool failOn = false;  // and all calls after it
  unsigned calls = 0;
  std::string steps;  // calls that have written
  std::string closed, inUse;

  static std::string textOf(const VolumeKey& key) {
    return {reinterpret_cast<const char*>(key.passphrase.begin()), key.passphrase.size()};
  }
  bool fits(At at) const {
    auto found = slots.find(at.slot);
    return found != slots.end() && found->second == textOf(at.key);
  }
  void begin() {
    ++calls;
    if (calls == failAt || (failOn && failAt > 0 && calls > failAt)) {
      fail(ErrorKind::kUnavailable, "the power is gone");
    }
  }
  void wrote(std::string step) { steps += (steps.empty() ? "" : ", ") + step; }

  kj::Promise<Found> inspect(kj::StringPtr) override {
    begin();
    Found found;
    found.content = content;
    for (auto& slot : slots) found.slots.add(slot.first);
    found.problem = kj::str(problem.c_str());
    for (auto& [slot, userData] : tokens) {
      if (slots.count(slot) == 0) continue;
      auto kind = userData.find("sealedData") != std::string::npos ? KeyKind::kKms : KeyKind::kTpm;
      found.tokens.add(Token{slot, kj::str(tokenTypeOf(kind)), kj::str(userData.c_str())});
    }
    return kj::mv(found);
  }
  void setToken(unsigned slot, const VolumeKey& key) {
    tokens.erase(slot);
    KJ_IF_MAYBE (sealing, key.sealing) {
      KJ_REQUIRE(sealing->userData.size() > 0, "a sealed key without its token");
      tokens[slot] = sealing->userData.cStr();
    }
  }
  kj::Promise<void> format(kj::StringPtr, const VolumeSettings& settings) override {
    begin();
    KJ_REQUIRE(content == Content::EMPTY || slots.empty());
    content = Content::LUKS;
    for (auto& key : settings.keys) {
      KJ_REQUIRE(key.passphrase.size() > 0);
      slots[key.slot] = textOf(key);
      setToken(key.slot, key);
    }
    fresh = true;
    wrote("format");
    return kj::READY_NOW;
  }
  kj::Promise<kj::Maybe<Opened>> open(kj::StringPtr, kj::StringPtr mapping,
                                      const VolumeSettings& settings) override {
    begin();
    for (bool own : {true, false}) {
      for (size_t i = 0; i < settings.keys.size(); ++i) {
        for (auto& [slot, passphrase] : slots) {
          if ((slot == settings.keys[i].slot) != own) continue;
          if (passphrase != textOf(settings.keys[i])) continue;
          if (mapping.size() > 0) mapped = mapping.cStr();
          return kj::Maybe<Opened>(Opened{slot, i, fresh});
        }
      }
    }
    return kj::Maybe<Opened>(nullptr);
  }
  kj::Promise<kj::Array<bool>> test(kj::StringPtr, kj::ArrayPtr<const VolumeKey> keys) override {
    begin();
    return KJ_MAP(key, keys) {
      return fits({key, key.slot});
    };
  }
  kj::Promise<void> add(kj::StringPtr, At key, At by) override {
    begin();
    KJ_REQUIRE(slots.count(key.slot) == 0 && fits(by));
    slots[key.slot] = spoils ? "spoiled" : textOf(key.key);
    setToken(key.slot, key.key);
    wrote("add " + std::to_string(key.slot));
    return kj::READY_NOW;
  }
  kj::Promise<void> remove(kj::StringPtr, unsigned slot, At keeping) override {
    begin();
    KJ_REQUIRE(slot != keeping.slot && fits(keeping));
    slots.erase(slot);
    tokens.erase(slot);
    wrote("remove " + std::to_string(slot));
    return kj::READY_NOW;
  }
  kj::Promise<void> settle(kj::StringPtr) override {
    begin();
    fresh = false;
    wrote("settle");
    return kj::READY_NOW;
  }
  kj::Promise<void> close(kj::StringPtr mapping) override {
    begin();
    if (inUse == mapping.cStr()) fail(ErrorKind::kUnavailable, kj::str(mapping, " is in use"));
    closed += (closed.empty() ? "" : " ") + std::string(mapping.cStr());
    if (mapped == mapping.cStr()) mapped.clear();
    return kj::READY_NOW;
  }

  void requireTpm() const {
    if (!tpmProblem.empty()) fail(ErrorKind::kFailedPrecondition, tpmProblem.c_str());
  }
  void askServer() {
    ++kmsAsked;
    if (!kmsProblem.empty()) fail(ErrorKind::kUnavailable, kmsProblem.c_str());
  }
  kj::Promise<kj::String> seal(const VolumeKey& key, kj::ArrayPtr<const kj::byte> secret) override {
    bool server = key.kind == KeyKind::kKms;
    if (server) {
      askServer();
    } else {
      requireTpm();
    }
    auto& pcrs = KJ_REQUIRE_NONNULL(key.sealing).pcrs;
    auto userData = std::string(server ? "{\"sealedData\":" : "{\"key\":") +
                    std::to_string(sealed.size()) + "}";
    sealed[userData].assign(pcrs.begin(), pcrs.end());
    secrets[userData] = {reinterpret_cast<const char*>(secret.begin()), secret.size()};
    return kj::str(userData.c_str());
  }
  kj::Promise<Unsealed> unseal(const VolumeKey& key, kj::StringPtr userData) override {
    if (key.kind == KeyKind::kKms) {
      askServer();
      Unsealed answer;
      auto secret = secrets[userData.cStr()];
      if (secret.empty() || kmsForgot) secret = std::string(32, 'x');
      answer.secret = kj::heapArray<kj::byte>(kj::arrayPtr(secret.data(), secret.size()).asBytes());
      answer.sealing = KJ_REQUIRE_NONNULL(key.sealing).clone();
      return kj::mv(answer);
    }
    requireTpm();
    auto found = secrets.find(userData.cStr());
    if (found == secrets.end()) {
      fail(ErrorKind::kFailedPrecondition, "another machine has sealed the key");
    }
    auto& secret = found->second;
    auto& pcrs = sealed[userData.cStr()];
    Unsealed result;
    result.secret = kj::heapArray<kj::byte>(kj::arrayPtr(secret.data(), secret.size()).asBytes());
    result.sealing.pcrs = kj::heapArray<unsigned>(pcrs.data(), pcrs.size());
    return kj::mv(result);
  }

  std::map<unsigned, std::string> kept;  // of the backup
  bool backedUp = false, marked = false, foreign = false, rotten = false;
  kj::Promise<Comparison> compare(kj::StringPtr, kj::StringPtr) override {
    begin();
    if (marked) return Comparison::CHANGING;
    if (!backedUp) return Comparison::NONE;
    if (rotten) return Comparison::DAMAGED;
    return content == Content::LUKS && kept == slots ? Comparison::SAME : Comparison::OTHER;
  }
  kj::Promise<void> mark(kj::StringPtr, kj::StringPtr) override {
    begin();
    marked = true;
    wrote("mark");
    return kj::READY_NOW;
  }
  kj::Promise<void> backup(kj::StringPtr, kj::StringPtr, Change change) override {
    begin();
    KJ_REQUIRE(content == Content::LUKS);
    kept = slots;
    backedUp = true;
    rotten = false;
    if (change == Change::kIsOver) marked = false;
    wrote(change == Change::kIsOver ? "backup" : "backup meanwhile");
    return kj::READY_NOW;
  }
  kj::Promise<void> restore(kj::StringPtr, kj::StringPtr file,
                            const VolumeSettings& settings) override {
    begin();
    auto label = file.slice(KJ_ASSERT_NONNULL(file.findLast('/')) + 1);
    bool opens = false;
    for (auto& key : settings.keys) {
      for (auto& slot : kept) opens = opens || slot.second == textOf(key);
    }
    bool reset = content == Content::EMPTY && !label.startsWith("u-");
    if (!backedUp || rotten || reset || foreign || !opens) {
      fail(ErrorKind::kFailedPrecondition, "the header is not restored");
    }
    content = Content::LUKS;
    slots = kept;
    wrote("restore");
    return kj::READY_NOW;
  }
  kj::Promise<void> forget(kj::StringPtr) override {
    begin();
    if (backedUp || marked) wrote("forget");
    backedUp = marked = rotten = false;
    kept.clear();
    return kj::READY_NOW;
  }
};

}  // namespace talos::machined
