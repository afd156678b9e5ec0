#include "common/talosconfig/talosconfig.h"

#include <capnp/message.h>

#include "common/base/error.h"
#include "common/memory/zeroize.h"
#include "common/user/user-file.h"
#include "common/yaml/yaml-codec.h"
#include "rpc/talosconfig.capnp.h"

namespace talos {
namespace {

constexpr kj::StringPtr kNoEndpoint = "127.0.0.1"_kj;  // in the files of nodes of earlier releases
constexpr size_t kLargestFile = codec::kMaxDocumentBytes;

kj::String textOf(capnp::Data::Reader data) {
  return kj::heapString(data.asChars());
}

void setList(capnp::List<capnp::Text>::Builder list, const kj::Vector<kj::String>& items) {
  for (size_t i = 0; i < items.size(); ++i) list.set(i, items[i]);
}

}  // namespace

Credentials Context::credentials() const {
  if (ca.size() == 0 || certificate.size() == 0 || key.bytes().size() == 0) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("the context lacks ",
                 ca.size() == 0            ? "ca"
                 : certificate.size() == 0 ? "crt"
                                           : "key",
                 "; `talosctl config add` makes one from three PEM files"));
  }
  return Credentials{kj::str(ca), kj::str(certificate), key.clone()};
}

Talosconfig Talosconfig::parse(kj::StringPtr text, kj::StringPtr file) {
  return read(text, file, true);
}

Talosconfig Talosconfig::parseReceived(kj::StringPtr text, kj::StringPtr file, kj::StringPtr name) {
  auto config = read(text, file, false);
  auto refuse = [&](kj::StringPtr error) {
    fail(ErrorKind::kInvalidArgument, kj::str(file, " is refused: ", error));
  };
  auto context = config.all.find(name);
  if (context == nullptr || config.all.size() != 1 || config.current != name) {
    refuse(kj::str("it must have one context, \"", name, "\""));
  }
  auto& only = KJ_ASSERT_NONNULL(context);
  bool chosen = only.nodes.size() > 0;
  for (auto& endpoint : only.endpoints) chosen = chosen || endpoint != kNoEndpoint;
  if (chosen) refuse("a node must not choose the endpoints and nodes of a client");
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { TlsEndpoint check(only.credentials()); })) {
    refuse(messageOf(*e));
  }
  return config;
}

Talosconfig Talosconfig::read(kj::StringPtr text, kj::StringPtr file, bool unknownKeysAreWarnings) {
  Talosconfig config;
  bool blank = true;
  for (char c : text) blank = blank && (c == ' ' || c == '\n' || c == '\r' || c == '\t');
  if (blank) return config;

  SecretMessage message;
  auto root = message.initRoot<rpc::Talosconfig>();
  Problems problems;
  if (!codec::readYaml(text, root, problems,
                       {.file = file, .unknownKeysAreWarnings = unknownKeysAreWarnings})) {
    auto lines = render(problems);
    fail(ErrorKind::kInvalidArgument, kj::str(lines.slice(0, lines.size() - 1)));
  }
  config.current = kj::str(root.getContext());
  for (auto entry : root.asReader().getContexts()) {
    auto from = entry.getValue();
    Context context;
    for (auto endpoint : from.getEndpoints()) context.endpoints.add(kj::str(endpoint));
    if (from.getTarget().size() > 0) context.endpoints.add(kj::str(from.getTarget()));
    for (auto node : from.getNodes()) context.nodes.add(kj::str(node));
    context.ca = textOf(from.getCa());
    context.certificate = textOf(from.getCrt());
    context.key = pki::Pem(textOf(from.getKey()));
    config.all.insert(kj::str(entry.getKey()), kj::mv(context));
  }
  return config;
}

Talosconfig Talosconfig::load(kj::StringPtr path) {
  KJ_IF_MAYBE (text, tryReadUserFile(path, kLargestFile)) {
    KJ_DEFER(zeroize(text->asArray()));
    return parse(*text, path);
  }
  return {};
}

kj::String Talosconfig::toYaml() const {
  SecretMessage message;
  auto root = message.initRoot<rpc::Talosconfig>();
  root.setContext(current);
  auto entries = root.initContexts(all.size());
  size_t i = 0;
  for (auto& row : all) {
    auto entry = entries[i++];
    entry.setKey(row.key);
    auto to = entry.initValue();
    setList(to.initEndpoints(row.value.endpoints.size()), row.value.endpoints);
    setList(to.initNodes(row.value.nodes.size()), row.value.nodes);
    to.setCa(row.value.ca.asBytes());
    to.setCrt(row.value.certificate.asBytes());
    to.setKey(row.value.key.bytes());
  }
  return codec::writeYaml(root.asReader(), {.empties = codec::Empties::kOmit});
}

void Talosconfig::save(kj::StringPtr path) const {
  makeUserFolders(path, 0700);
  auto text = toYaml();
  KJ_DEFER(zeroize(text.asArray()));
  writeUserFile(path, text);
}

void Talosconfig::saveNew(kj::StringPtr path) const {
  makeUserFolders(path, 0700);
  auto text = toYaml();
  KJ_DEFER(zeroize(text.asArray()));
  createUserFile(path, text);
}

kj::String Talosconfig::checkName(kj::StringPtr name) const {
  if (name.size() > 0) {
    if (all.find(name) != nullptr) return kj::str(name);
    kj::Vector<kj::StringPtr> names;
    for (auto& row : all) names.add(row.key);
    kj::String hint = kj::str("`talosctl config contexts` lists them");
    KJ_IF_MAYBE (meant, closest(name, names)) hint = kj::str("did you mean \"", *meant, "\"?");
    fail(ErrorKind::kNotFound,
         kj::str("unknown context \"", name, "\" in the client configuration; ", hint));
  }
  if (current.size() > 0) return checkName(current);
  if (all.size() == 0) {
    fail(ErrorKind::kInvalidArgument, kj::str("the client configuration is empty; use `talosctl "
                                              "config merge FILE` or `talosctl config add`"));
  }
  fail(ErrorKind::kInvalidArgument,
       kj::str("no current context; use --context or `talosctl config context`"));
}

const Context& Talosconfig::resolve(kj::StringPtr name) const {
  return KJ_ASSERT_NONNULL(all.find(checkName(name)));
}

Context& Talosconfig::resolve(kj::StringPtr name) {
  return KJ_ASSERT_NONNULL(all.find(checkName(name)));
}

void Talosconfig::select(kj::StringPtr name) {
  if (name.size() == 0) fail(ErrorKind::kInvalidArgument, kj::str("context name is empty"));
  current = checkName(name);
}

void Talosconfig::add(kj::StringPtr name, Context context) {
  if (name.size() == 0) fail(ErrorKind::kInvalidArgument, kj::str("context name is empty"));
  if (all.size() == 0) current = kj::str(name);
  all.upsert(kj::str(name), kj::mv(context),
             [](Context& existing, Context&& added) { existing = kj::mv(added); });
}

void Talosconfig::remove(kj::StringPtr name) {
  if (!all.erase(name)) return;
  if (current == name) current = kj::String();
  // If a single context is left, the user means this one.
  if (current.size() == 0 && all.size() == 1) current = kj::str(all.begin()->key);
}

void Talosconfig::rename(kj::StringPtr from, kj::StringPtr to) {
  if (from.size() == 0 || to.size() == 0) {
    fail(ErrorKind::kInvalidArgument, kj::str("context name is empty"));
  }
  auto old = checkName(from);
  if (all.find(to) != nullptr) {
    fail(ErrorKind::kConflict, kj::str("cannot rename the context \"", from, "\": the context \"",
                                       to, "\" already exists; use another name"));
  }
  auto context = kj::mv(KJ_ASSERT_NONNULL(all.find(old)));
  all.erase(old);
  all.insert(kj::str(to), kj::mv(context));
  if (current == old) current = kj::str(to);
}

kj::Vector<Talosconfig::Rename> Talosconfig::merge(Talosconfig&& other) {
  kj::Vector<Rename> renames;
  auto otherCurrent = kj::mv(other.current);
  kj::String newCurrent;  // empty when the other file has no such context
  for (auto& row : other.all) {
    auto name = kj::str(row.key);
    for (unsigned n = 1; all.find(name) != nullptr; ++n) name = kj::str(row.key, "-", n);
    if (name != row.key) renames.add(Rename{kj::str(row.key), kj::str(name)});
    if (row.key == otherCurrent) newCurrent = kj::str(name);
    all.insert(kj::mv(name), kj::mv(row.value));
  }
  if (newCurrent.size() > 0) current = kj::mv(newCurrent);
  other.all.clear();
  return renames;
}

}  // namespace talos
