// docs/sent-secrets.md names each method of the two ports of a node by which a secret may reach
// another machine, and each resource that holds one.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "common/base/annotation.h"
#include "common/wire/resource-registry.h"
#include "rpc/node.capnp.h"
#include "rpc/trust.capnp.h"

namespace talos::contracts {
namespace {

// The fields whose names say that they hold a secret, whatever their annotations say.
bool isNamedLikeASecret(kj::StringPtr name) {
  for (auto word : {"token", "passphrase", "password", "secret", "key"}) {
    if (name == kj::StringPtr(word)) return true;
  }
  return false;
}

// Keys, certificates, snapshots and documents are Data; a text is a secret if it is marked as one.
class SecretSearch {
 public:
  bool carries(capnp::StructSchema schema) {
    if (!seen.insert(schema.getProto().getId()).second) return false;
    bool found = false;
    for (auto field : schema.getFields()) {
      found = carries(field) || found;
    }
    return found;
  }

 private:
  std::set<uint64_t> seen;

  bool carries(capnp::StructSchema::Field field) {
    auto type = field.getType();
    while (type.isList()) type = type.asList().getElementType();
    if (annotation::has(field, annotation::kSecret) || type.isData() || type.isAnyPointer()) {
      return true;
    }
    if (type.isText()) return isNamedLikeASecret(field.getProto().getName());
    // A sink or a source: bytes or records flow through its methods.
    if (type.isInterface()) {
      bool found = false;
      for (auto method : type.asInterface().getMethods()) {
        found = carries(method.getParamType()) || carries(method.getResultType()) || found;
      }
      return found;
    }
    return type.isStruct() && carries(type.asStruct());
  }
};

// Node.machine and the like return capabilities, whose methods have their own rows.
bool isOfService(capnp::InterfaceSchema::Method method) {
  for (auto field : method.getResultType().getFields()) {
    if (field.getType().isInterface()) return false;
  }
  return true;
}

class Methods {
 public:
  std::map<std::string, bool> all;  // "Machine.kubeconfig": a secret may go with it

  void add(capnp::InterfaceSchema schema) {
    if (!seen.insert(schema.getProto().getId()).second) return;
    for (auto method : schema.getMethods()) {
      SecretSearch params, results;
      bool carries = params.carries(method.getParamType());
      carries = (isOfService(method) && results.carries(method.getResultType())) || carries;
      all[kj::str(schema.getShortDisplayName(), ".", method.getProto().getName()).cStr()] = carries;
      for (auto field : method.getResultType().getFields()) {
        if (field.getType().isInterface()) add(field.getType().asInterface());
      }
    }
  }

 private:
  std::set<uint64_t> seen;
};

// The text between the first two backticks of each row of a table.
std::set<std::string> rowsOf(const std::string& page) {
  std::set<std::string> rows;
  for (size_t at = 0; (at = page.find("\n| `", at)) != std::string::npos; ++at) {
    auto from = at + 4;
    rows.insert(page.substr(from, page.find('`', from) - from));
  }
  return rows;
}

}  // namespace

// Catches: a new method or resource with a secret whose receiver, and the reason why it may have
// the secret, are not on the page; a row of a removed method.
TEST(SentSecrets, EachHasARowThatSaysWhoGetsItAndWhy) {
  std::ifstream file(TALOS_SOURCE_DIR "/docs/sent-secrets.md");
  std::string page((std::istreambuf_iterator<char>(file)), {});
  auto rows = rowsOf(page);
  Methods methods;
  methods.add(capnp::Schema::from<rpc::Cluster>());
  methods.add(capnp::Schema::from<rpc::Trust>());
  EXPECT_GT(methods.all.size(), 50u);
  std::string missing;
  for (auto& [name, carries] : methods.all) {
    if (carries && rows.count(name) == 0) missing += "  " + name + "\n";
  }
  Registry registry;
  std::set<std::string> types;
  for (auto& type : registry.types()) {
    types.insert(type.name.cStr());
    if (type.sensitive && rows.count(type.name.cStr()) == 0) {
      missing += std::string("  ") + type.name.cStr() + "\n";
    }
  }
  EXPECT_EQ(missing, "") << "docs/sent-secrets.md has no row of these";
  for (auto& row : rows) {
    bool known = methods.all.count(row) == 1 || types.count(row) == 1;
    // Others are commands and programs: "talosctl rotate-ca", "apid".
    bool isName = row.find('.') != std::string::npos && row.find(' ') == std::string::npos;
    EXPECT_TRUE(known || !isName) << row << ": there is no such method or resource";
  }
}

}  // namespace talos::contracts
