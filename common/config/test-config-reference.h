// Reference document of the machine config, in Markdown: the meaning of every key, from the
// schema's annotations, each with an example. Pure. The test that compares the two writes
// docs/machine-config.md.
#pragma once

#include <capnp/dynamic.h>
#include <capnp/message.h>
#include <kj/string.h>
#include <kj/vector.h>

#include <map>
#include <string>
#include <utility>

#include "common/base/annotation.h"
#include "common/base/reserved-names.h"
#include "common/config/kubernetes/kubelet-configuration.h"
#include "common/config/rules/config-check.h"
#include "common/yaml/yaml-codec.h"
#include "rpc/config.capnp.h"

namespace talos::config {
namespace {

struct Reference {
  kj::String markdown;
  kj::Vector<kj::String> missing;  // paths of keys that the example does not set
};

using capnp::DynamicList;
using capnp::DynamicStruct;
using capnp::StructSchema;

constexpr kj::StringPtr kPem = "-----BEGIN CERTIFICATE-----\n"_kj;

// Returns the struct of a value whose keys have their own sections.
kj::Maybe<StructSchema> nested(StructSchema::Field field) {
  auto type = field.getType();
  if (type.isList()) {
    auto element = type.asList().getElementType();
    if (!element.isStruct()) return nullptr;
    if (annotation::has(element.asStruct(), annotation::kInline)) return nullptr;
    if (!annotation::has(field, annotation::kMap)) return element.asStruct();
    type = element.asStruct().getFieldByName("value").getType();
  }
  if (!type.isStruct() || type.asStruct().getFields().size() == 0) return nullptr;
  return type.asStruct();
}

kj::String typeName(capnp::Type type) {
  if (type.isText()) return kj::str("string");
  if (type.isData()) return kj::str("base64");
  if (type.isBool()) return kj::str("boolean");
  if (type.isList()) return kj::str("list of ", typeName(type.asList().getElementType()));
  if (type.isStruct()) return kj::str("mapping");
  if (!type.isEnum()) return kj::str("number");
  kj::Vector<kj::StringPtr> names;
  for (auto value : type.asEnum().getEnumerants()) names.add(annotation::nameOf(value));
  return kj::strArray(names, ", ");
}

class Writer {
 public:
  Reference result;
  kj::Vector<kj::String> parts;

  // Writes one section for the struct at `path`, and the sections below it. If another section has
  // described the same keys, it refers to that section.
  void section(kj::StringPtr path, StructSchema schema,
               kj::ArrayPtr<const DynamicStruct::Reader> instances, bool live) {
    auto before = described.find(KeysOf{schema, live});
    bool known = before != described.end();
    if (known) {
      if (!silent)
        parts.add(kj::str("\n## ", path, "\nThe keys of ", link(before->second).c_str(), ".\n"));
    } else {
      if (path.size() > 0) parts.add(kj::str("\n## ", path));
      parts.add(kj::str("\n"));
      described[KeysOf{schema, live}] = path.cStr();
    }
    bool outer = silent;
    silent = silent || known;
    for (auto field : schema.getFields()) {
      if (annotation::has(field, annotation::kHidden)) continue;
      if (!silent) describe(field, annotation::isLive(field, live));
      bool given = false;
      for (auto& instance : instances)
        given = given || instance.has(field, capnp::HasMode::NON_DEFAULT);
      if (!given) result.missing.add(pathOf(path, field));
    }
    kj::Vector<StructSchema::Field> shown;
    for (auto& instance : instances) {
      if (!silent) addExample(instance, shown);
    }
    for (auto field : schema.getFields()) {
      if (annotation::has(field, annotation::kHidden)) continue;
      KJ_IF_MAYBE (below, nested(field)) {
        auto values = valuesOf(instances, field);
        auto suffix = annotation::has(field, annotation::kMap) ? ".*"_kj
                      : field.getType().isList()               ? "[]"_kj
                                                               : ""_kj;
        section(kj::str(pathOf(path, field), suffix), *below, values,
                annotation::isLive(field, live));
      }
    }
    silent = outer;
  }

 private:
  using KeysOf = std::pair<StructSchema, bool>;  // and true if they take effect without a reboot
  struct ById {
    bool operator()(const KeysOf& a, const KeysOf& b) const {
      return std::pair(a.first.getProto().getId(), a.second) <
             std::pair(b.first.getProto().getId(), b.second);
    }
  };
  std::map<KeysOf, std::string, ById> described;  // paths of their sections
  bool silent = false;                            // below a section that refers to another one

  // Makes the anchor of a heading as GitHub does.
  static std::string link(const std::string& path) {
    std::string anchor;
    for (char c : path) {
      if (isalnum(static_cast<unsigned char>(c)) || c == '-') {
        anchor += static_cast<char>(tolower(static_cast<unsigned char>(c)));
      }
    }
    return "[" + path + "](#" + anchor + ")";
  }

  static kj::String pathOf(kj::StringPtr path, StructSchema::Field field) {
    return kj::str(path, path.size() == 0 ? "" : ".", codec::keyOf(field));
  }

  // If only some keys of a mapping with its own section are live, that section says so.
  static bool anyLiveBelow(StructSchema::Field field) {
    KJ_IF_MAYBE (below, nested(field)) {
      for (auto inner : below->getFields()) {
        if (annotation::has(inner, annotation::kLive) || anyLiveBelow(inner)) return true;
      }
    }
    return false;
  }

  void describe(StructSchema::Field field, bool live) {
    kj::Vector<kj::String> notes;
    notes.add(annotation::has(field, annotation::kMap) ? kj::str("mapping with any keys")
                                                       : typeName(field.getType()));
    if (annotation::has(field, annotation::kRequired)) notes.add(kj::str("required"));
    auto note = [&](kj::StringPtr prefix, annotation::Id id) {
      auto text = annotation::text(field, id);
      if (text.size() > 0) notes.add(kj::str(prefix, text));
    };
    note("default: ", annotation::kDefault);
    note("since ", annotation::kSince);
    if (annotation::has(field, annotation::kNoEffect)) {
      notes.add(kj::str("no effect: ", annotation::text(field, annotation::kNoEffect)));
    }
    if (annotation::has(field, annotation::kSecret)) notes.add(kj::str("secret"));
    if (live) {
      notes.add(kj::str("applied without a reboot"));
    } else if (anyLiveBelow(field)) {
      notes.add(kj::str("partly applied without a reboot"));
    } else {
      notes.add(kj::str("needs a reboot"));
    }
    parts.add(kj::str("- `", codec::keyOf(field), "` (", kj::strArray(notes, "; "),
                      "): ", annotation::text(field, annotation::kDoc), "\n"));
  }

  // Structs below the instance have their own sections; an example that shows nothing new is left
  // out.
  void addExample(DynamicStruct::Reader instance, kj::Vector<StructSchema::Field>& shown) {
    size_t before = shown.size();
    capnp::MallocMessageBuilder message;
    auto copy = message.initRoot<DynamicStruct>(instance.getSchema());
    for (auto field : instance.getSchema().getFields()) {
      if (nested(field) != nullptr || !instance.has(field, capnp::HasMode::NON_DEFAULT)) continue;
      bool known = false;
      for (auto& other : shown) known = known || other == field;
      if (!known) shown.add(field);
      if (field.getType().isData())
        copy.set(field, capnp::Data::Reader(kPem.asBytes()));
      else
        copy.set(field, instance.get(field));
    }
    if (shown.size() == before) return;
    // The content of a file is hidden when a config is shown, because it may be a secret.
    bool isFile = instance.getSchema() == capnp::Schema::from<File>();
    auto text = codec::writeYaml(
        copy.asReader(), {.indent = 2,
                          .empties = codec::Empties::kOmit,
                          .secrets = isFile ? codec::Secrets::kShow : codec::Secrets::kHide});
    parts.add(kj::str("```yaml\n", text, "```\n"));
  }

  static kj::Vector<DynamicStruct::Reader> valuesOf(
      kj::ArrayPtr<const DynamicStruct::Reader> instances, StructSchema::Field field) {
    kj::Vector<DynamicStruct::Reader> values;
    for (auto& instance : instances) {
      if (!instance.has(field)) continue;
      auto value = instance.get(field);
      if (!field.getType().isList()) {
        values.add(value.as<DynamicStruct>());
        continue;
      }
      for (auto item : value.as<DynamicList>()) {
        auto element = item.as<DynamicStruct>();
        bool pair = annotation::has(field, annotation::kMap);
        values.add(pair ? element.get("value").as<DynamicStruct>() : element);
      }
    }
    return values;
  }
};

// Adds a row for each key of a later version that this system reads. `since`, `error`: of the
// mapping above; empty if it is of this version, and if it is not refused.
void addKnownKeys(kj::Vector<kj::String>& parts, StructSchema schema, kj::StringPtr above,
                  kj::StringPtr since, kj::StringPtr error) {
  constexpr kj::StringPtr kRefused = "Refused: "_kj;
  for (auto field : schema.getFields()) {
    if (annotation::has(field, annotation::kHidden)) continue;
    auto path = kj::str(above, above.size() == 0 ? "" : ".", codec::keyOf(field));
    auto own = annotation::text(field, annotation::kSince),
         doc = annotation::text(field, annotation::kDoc);
    auto version = own.size() > 0 ? own : since;
    auto refused = doc.startsWith(kRefused) ? doc.slice(kRefused.size()) : error;
    KJ_IF_MAYBE (below, nested(field)) {
      auto suffix = annotation::has(field, annotation::kMap) ? ".*"_kj
                    : field.getType().isList()               ? "[]"_kj
                                                             : ""_kj;
      addKnownKeys(parts, *below, kj::str(path, suffix), version, refused);
    } else if (version.size() > 0) {
      parts.add(kj::str("| `", path, "` | ", version, " | ",
                        refused.size() > 0 ? "refused" : "acts", " | ", refused, " |\n"));
    }
  }
}

kj::StringPtr resultOf(codec::LaterTreatment treatment) {
  switch (treatment) {
    case codec::LaterTreatment::kWarning:
    case codec::LaterTreatment::kAccepted:
      return "means nothing here";
    case codec::LaterTreatment::kError:
      return "refused";
    case codec::LaterTreatment::kErrorIfTrue:
      return "refused if true";
  }
  KJ_UNREACHABLE;
}

kj::String reasonAndHint(kj::StringPtr reason, kj::StringPtr hint) {
  return kj::str(reason, reason.size() > 0 && hint.size() > 0 ? "; " : "", hint);
}

// Returns the reason of a key of a later version: its own, or that of the nearest key above it that
// has one. A key without a message has it from the key that decides: the one above that is refused,
// or the one beside it.
kj::String reasonOf(const codec::LaterKey& key) {
  const codec::LaterKey* found = nullptr;
  bool silent = key.treatment == codec::LaterTreatment::kAccepted;
  for (auto& other : laterKeys()) {
    bool above = key.path.startsWith(other.path) &&
                 (key.path.size() == other.path.size() || key.path[other.path.size()] == '.' ||
                  key.path[other.path.size()] == '[');
    if (!above || other.reason.size() + other.hint.size() == 0) continue;
    if (found == nullptr || other.path.size() > found->path.size()) found = &other;
  }
  if (found == nullptr) {
    return silent ? kj::str("a key of the same section decides, which is off or refused")
                  : kj::String();
  }
  if (silent) return kj::str("`", found->path, "` decides");
  return reasonAndHint(found->reason, found->hint);
}

// Returns the page of the keys and documents that later versions have, with what becomes of each.
kj::String laterVersions() {
  kj::Vector<kj::String> parts;
  parts.add(kj::str(
      "# Keys and documents of later versions\n\n"
      "Generated from the schema and the tables that `talosctl validate` uses.\n\n"
      "| Result | `validate`, `apply-config` | `validate --strict` | Why |\n|---|---|---|---|\n"
      "| acts | nothing is printed | nothing is printed | this system has the key; "
      "[config-keys.md](config-keys.md) has its test |\n"
      "| means nothing here | a warning in one line, with the version that brought it; nothing for "
      "a "
      "key of which another one decides | an error; nothing | what it asks for is always so here, "
      "or "
      "this system has nothing that it could change; the node stores the config and does nothing "
      "with it |\n"
      "| refused | an error | an error | this system cannot do what it says, and whoever wrote it "
      "would rely on it; a config that a node has kept from an earlier release stays in use, with "
      "a "
      "warning |\n"
      "| refused if true | an error, unless the value is false | an error, unless the value is "
      "false "
      "| false is what this system does |\n\n"
      "## Keys\n\n"
      "A key without a version of its own has that of the mapping around it, also if only this\n"
      "system has it.\n\n"
      "| Key | Since | Result | Why, or what to use instead |\n|---|---|---|---|\n"));
  addKnownKeys(parts, capnp::Schema::from<Config>(), "", "", "");
  for (auto& key : laterKeys())
    parts.add(kj::str("| `", key.path, "` | ", key.since, " | ", resultOf(key.treatment), " | ",
                      reasonOf(key), " |\n"));
  parts.add(kj::str(
      "\n## Documents\n\n"
      "A file may have further documents besides the machine config, separated by `---`.\n"
      "[config-documents.md](../config-documents.md) says what those that act do. A document of\n"
      "any other kind that is not empty is an error.\n\n"
      "| Kind | Since | Result | Why, or what to use instead |\n|---|---|---|---|\n"));
  for (auto kind : documentKinds()) {
    bool refused = kind == "UdevRulesConfig"_kj;
    parts.add(kj::str("| `", kind, "` | | ",
                      refused ? "refused | as `machine.udev.rules`"_kj : "acts |"_kj, " |\n"));
  }
  for (auto& kind : laterKinds()) {
    auto result = kj::str(resultOf(kind.treatment),
                          kind.asksForNothing == nullptr ? "" : ", unless it sets nothing of it");
    parts.add(kj::str("| `", kind.name, "` | ", kind.since, " | ", result, " | ",
                      reasonAndHint(kind.reason, kind.replacement), " |\n"));
  }
  parts.add(kj::str(
      "\n## Refused names\n\n"
      "Keys act, but these names in them are an error, because the node or another program sets\n"
      "what they mean. Arguments of programs that the node sets are an error, too.\n\n"
      "| Name | Why | Instead |\n|---|---|---|\n"));
  auto addReserved = [&](kj::StringPtr key, kj::ArrayPtr<const kube::ReservedName> names) {
    for (auto& one : names) {
      parts.add(kj::str("| `", keyPath(key, one.name), "` | ", one.owner,
                        " sets it | use another name |\n"));
    }
  };
  addReserved("machine.nodeLabels", kube::kReservedLabels);
  addReserved("machine.nodeAnnotations", kube::kReservedAnnotations);
  addReserved("machine.nodeTaints", kube::kReservedTaints);
  for (auto& field : kOwnKubeletFields) {
    parts.add(kj::str("| `machine.kubelet.extraConfig.", field.name, "` | ", field.reason, " | ",
                      field.instead, " |\n"));
  }
  return kj::strArray(parts, "");
}

// `example` is a config that sets every key to a value other than its default. Its secrets and
// certificates are not shown.
Reference reference(Config::Reader example) {
  Writer writer;
  writer.parts.add(kj::str(
      "# Machine config\n\n"
      "One YAML document defines a machine. This page is generated from the schema\n"
      "`rpc/config.capnp`. `talosctl gen config` writes complete configs. Every key of this\n"
      "page is read and validated, and acts unless it says \"no effect\" or \"Refused\".\n\n"
      "| Question | Answer |\n|---|---|\n"
      "| What does the node do with a key? | [config-effects.md](config-effects.md), "
      "[networkd.md](networkd.md), [disks.md](disks.md), [kubernetes.md](kubernetes.md) |\n"
      "| Does a change need a reboot? | each key says it; \"applied without a reboot\" means with "
      "`talosctl apply-config --immediate` or `--mode=no-reboot` |\n"
      "| How is a config patched? | [talosctl.md](talosctl.md#patches) |\n"
      "| How is a file checked? | `talosctl validate`; `talosctl apply-config` makes the same "
      "checks |\n"
      "| What becomes of a stored config with what is an error since an upgrade? | it stays in use "
      "with a warning on the console; `validate` and `apply-config` refuse it |\n"
      "| What about keys and documents of later versions? | "
      "[a warning if they have no effect, an error if that could be missed]"
      "(evidence/later-versions.md) |\n"
      "| Which test names a key? | [config-keys.md](evidence/config-keys.md) |\n"));
  const DynamicStruct::Reader root[] = {example};
  writer.section("", capnp::Schema::from<Config>(), root, false);
  writer.result.markdown = kj::strArray(writer.parts, "");
  return kj::mv(writer.result);
}

}  // namespace
}  // namespace talos::config
