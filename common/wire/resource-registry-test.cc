#include "common/wire/resource-registry.h"

#include <gtest/gtest.h>

#include "common/testing/printing.h"

#include "common/base/error.h"
#include "common/base/resource.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/network-resources.capnp.h"
#include "rpc/secret-resources.capnp.h"

namespace talos {
namespace {

kj::String joined(const kj::Vector<kj::String>& aliases) {
  return kj::strArray(aliases, " ");
}

kj::String failureOf(const Registry& registry, kj::StringPtr alias) {
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { registry.find(alias); })) {
    return kj::str(nameOf(kindOf(*e)), ": ", messageOf(*e));
  }
  return kj::str("found");
}

// Catches: a reader that requests another type from the store than its spec's.
TEST(Resource, AStructKnowsItsTypeAndAResourceIsReadAsItsSpec) {
  EXPECT_EQ(typeName<rpc::LinkSpecSpec>(), "LinkSpecs.net.talos.dev");
  EXPECT_EQ(typeName<rpc::JoinSpec>(), "JoinSpecs.secrets.talos.dev");
  EXPECT_ANY_THROW(typeName<rpc::VlanSpec>());
  capnp::MallocMessageBuilder message;
  auto resource = message.initRoot<rpc::Resource>();
  resource.initMetadata().setId("eth0");
  resource.getMetadata().setVersion(3);
  resource.getSpec().initAs<rpc::LinkSpecSpec>().setKind("bond");
  ResourceOf<rpc::LinkSpecSpec> link(resource.asReader());
  EXPECT_EQ(kj::str(link.id(), "@", link.version(), " ", link.getKind()), "eth0@3 bond");
}

// Catches: a derivation rule that is missing, out of order or applied to the wrong part of the
// name.
TEST(DeriveNames, FollowsTheRules) {
  auto kcpc = deriveNames("KubernetesControlPlaneConfigs.config.talos.dev");
  EXPECT_EQ(kj::str("KubernetesControlPlaneConfig"), kcpc.displayName);
  EXPECT_EQ(kj::str("kubernetescontrolplaneconfigs kubernetescontrolplaneconfig "
                    "kubernetescontrolplaneconfigs.config "
                    "kubernetescontrolplaneconfigs.config.talos kcpc kcpcs"),
            joined(kcpc.aliases));
  EXPECT_EQ(kj::str("services service services.v1alpha1 services.v1alpha1.talos"),
            joined(deriveNames("Services.v1alpha1.talos.dev").aliases));
  auto statuses = deriveNames("SecretStatuses.kubernetes.talos.dev");
  EXPECT_EQ(kj::str("SecretStatus"), statuses.displayName);
  EXPECT_EQ(kj::str("secretstatuses secretstatus secretstatuses.kubernetes "
                    "secretstatuses.kubernetes.talos ss"),
            joined(statuses.aliases));
  EXPECT_EQ(kj::str("NodeAddress"), deriveNames("NodeAddresses.net.talos.dev").displayName);
}

// Catches: names that no lookup could ever match.
TEST(DeriveNames, RefusesMalformedNames) {
  for (auto bad :
       {"services.v1alpha1.talos.dev", "Services", "S.talos.dev", "Services.", "Services.Talos.dev",
        "Services..dev", "Ser vices.talos.dev", "Services.talos.d", ""}) {
    EXPECT_ANY_THROW(deriveNames(bad)) << bad;
  }
}

// Catches: a documented alias that does not lead to its type.
TEST(Registry, FindsByEveryAliasOfTheTable) {
  Registry registry;
  struct {
    const char* alias;
    const char* type;
  } table[] = {
      {"ns", "Namespaces.meta.cosi.dev"},
      {"rd", "ResourceDefinitions.meta.cosi.dev"},
      {"rds", "ResourceDefinitions.meta.cosi.dev"},
      {"bs", "BootstrapStatuses.v1alpha1.talos.dev"},
      {"bootstrapstatus", "BootstrapStatuses.v1alpha1.talos.dev"},
      {"BootstrapStatus", "BootstrapStatuses.v1alpha1.talos.dev"},
      {"svc", "Services.v1alpha1.talos.dev"},
      {"services", "Services.v1alpha1.talos.dev"},
      {"ts", "TimeStatuses.v1alpha1.talos.dev"},
      {"mc", "MachineConfigs.config.talos.dev"},
      {"mcs", "MachineConfigs.config.talos.dev"},
      {"machineconfig", "MachineConfigs.config.talos.dev"},
      {"mt", "MachineTypes.config.talos.dev"},
      {"mts", "MachineTypes.config.talos.dev"},
      {"kcpc", "KubernetesControlPlaneConfigs.config.talos.dev"},
      {"kcpcs", "KubernetesControlPlaneConfigs.config.talos.dev"},
      {"rs", "RootSecrets.secrets.talos.dev"},
      {"rootsecrets", "RootSecrets.secrets.talos.dev"},
      {"es", "EtcdSecrets.secrets.talos.dev"},
      {"ks", "KubernetesSecrets.secrets.talos.dev"},
      {"sp", "StaticPods.kubernetes.talos.dev"},
      {"sps", "StaticPods.kubernetes.talos.dev"},
      {"staticpods", "StaticPods.kubernetes.talos.dev"},
      {"StaticPods.kubernetes.talos.dev", "StaticPods.kubernetes.talos.dev"},
      {"podstatus", "StaticPodStatuses.kubernetes.talos.dev"},
      {"staticpodstatus", "StaticPodStatuses.kubernetes.talos.dev"},
      {"ms", "ManifestStatuses.kubernetes.talos.dev"},
      {"ss", "SecretStatuses.kubernetes.talos.dev"},
      {"manifests", "Manifests.kubernetes.talos.dev"},
      {"links", "LinkStatuses.net.talos.dev"},
  };
  for (auto& row : table)
    EXPECT_EQ(kj::StringPtr(row.type), registry.find(row.alias).name) << row.alias;
}

// Catches: a shared alias that silently picks one of its types; an unknown type that is not "not
// found".
TEST(Registry, ExplainsUnknownAndAmbiguousAliases) {
  Registry registry;
  EXPECT_EQ(kj::str("InvalidArgument: resource type \"as\" is ambiguous; use "
                    "AddressSpecs.net.talos.dev or AddressStatuses.net.talos.dev"),
            failureOf(registry, "as"));
  EXPECT_TRUE(failureOf(registry, "pods").startsWith("NotFound: resource type \"pods\""));
  EXPECT_TRUE(failureOf(registry, "").startsWith("NotFound"));
}

// Catches: annotations that are lost on the way from the schema; a namespace without a name.
TEST(Registry, HasTheAnnotationsOfTheSchema) {
  Registry registry;
  auto& services = registry.find("svc");
  EXPECT_EQ(kj::StringPtr("Service"), services.displayName);
  EXPECT_EQ(kj::StringPtr("runtime"), services.defaultNamespace);
  EXPECT_FALSE(services.sensitive);
  ASSERT_EQ(2, services.columns.size());
  EXPECT_EQ(kj::StringPtr("RUNNING"), services.columns[0].header);
  EXPECT_EQ(kj::StringPtr("healthy"), services.columns[1].field.getProto().getName());
  EXPECT_TRUE(services.schema == capnp::Schema::from<rpc::ServiceSpec>());
  EXPECT_TRUE(registry.find("ks").sensitive);
  EXPECT_TRUE(registry.byName("Services.v1alpha1.talos.dev") != nullptr);
  EXPECT_TRUE(registry.byName("svc") == nullptr);

  auto known = Registry::namespaces();
  for (auto& type : registry.types()) {
    EXPECT_NE(known.end(), std::find(known.begin(), known.end(), type.defaultNamespace))
        << type.name.cStr();
    EXPECT_NE(0, Registry::describeNamespace(type.defaultNamespace).size());
  }
}

// Catches: two types of the same name, and an order that depends on the schema file.
TEST(Registry, IsSortedAndUnique) {
  Registry registry;
  auto types = registry.types();
  for (size_t i = 1; i < types.size(); ++i) EXPECT_TRUE(types[i - 1].name < types[i].name);
}

}  // namespace
}  // namespace talos
