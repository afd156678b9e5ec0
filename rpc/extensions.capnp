@0xc5d0e3f1a2b49768;
# Files of system extensions, as Talos publishes their formats: the manifest of an extension, the list of those in an
# image, a service of an extension; and a schematic, which says what an image is made of. common/extension reads them.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::extension");
using A = import "annotations.capnp";

struct Manifest {
  version @0 :Text $A.required;          # v1alpha1
  metadata @1 :Metadata $A.required;
}
struct Metadata {
  name @0 :Text $A.required;
  version @1 :Text $A.required;
  author @2 :Text;
  description @3 :Text;
  compatibility @4 :Compatibility;
  extraInfo @5 :Text;
}
struct Compatibility { talos @0 :TalosVersions; }
struct TalosVersions { version @0 :Text; }   # a range: ">= v1.5.0 < v2.0.0"

# /etc/extensions.yaml of a root with extensions.
struct ExtensionList { layers @0 :List(ExtensionLayer); }
struct ExtensionLayer {
  image @0 :Text;
  metadata @1 :Metadata;
}

# /usr/share/extensions.capnp of such a root: the files of its extensions as the builder of the image has read them. The
# brain reads no YAML.
struct ImageExtensions {
  layers @0 :List(ExtensionLayer);
  services @1 :List(ServiceFile);
}

# A file in /usr/local/etc/containers of an extension.
struct ServiceFile {
  name @0 :Text $A.required;
  container @1 :Container $A.required;
  depends @2 :List(Dependency);
  restart @3 :Restart $A.required;
  logToConsole @4 :Bool;
}
struct Container {
  entrypoint @0 :Text $A.required;
  args @1 :List(Text);
  environment @2 :List(Text);            # K=V
  environmentFile @3 :Text;
  mounts @4 :List(ContainerMount);
  security @5 :Security;
}
# A mount of the OCI runtime specification.
struct ContainerMount {
  source @0 :Text;
  destination @1 :Text $A.required;
  type @2 :Text;
  options @3 :List(Text);
}
struct Security {
  writeableRootfs @0 :Bool;
  writeableSysfs @1 :Bool;
  maskedPaths @2 :List(Text);            # absent: those of every container; empty: none
  readonlyPaths @3 :List(Text);          # as well
  rootfsPropagation @4 :Text;
}
struct Dependency {
  # Exactly one of these is set.
  service @0 :Text;
  path @1 :Text;
  network @2 :List(NetworkState);
  time @3 :Bool;
  configuration @4 :Bool;
}
enum NetworkState $A.noun("state of the network") { addresses @0; connectivity @1; hostname @2; etcfiles @3; }
enum Restart $A.noun("restart policy") { always @0; never @1; untilSuccess @2; }

# A document ExtensionServiceConfig of the machine config.
struct ServiceConfig {
  name @0 :Text;
  files @1 :List(ConfigFile);
  environment @2 :List(Text) $A.secret;  # K=V
}
struct ConfigFile {
  mountPath @0 :Text;
  content @1 :Text $A.secret;
}

# The parts of an image, as users of image factories name them (make schematic FILE=…).
struct Schematic {
  customization @0 :Customization;
  overlay @1 :Overlay;
}
struct Customization {
  extraKernelArgs @0 :List(Text);
  meta @1 :List(MetaValue);
  systemExtensions @2 :SystemExtensions;
  secureboot @3 :SecureBoot;
  bootloader @4 :Text;
  embeddedMachineConfiguration @5 :Text;
}
struct MetaValue { key @0 :UInt8; value @1 :Text; }
struct SystemExtensions { officialExtensions @0 :List(Text); }
struct SecureBoot { includeWellKnownCertificates @0 :Bool; enrollKeys @1 :Text; }
struct Overlay {
  name @0 :Text;
  image @1 :Text;
  options @2 :Text $A.raw;
}
