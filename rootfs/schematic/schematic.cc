#include "rootfs/schematic/schematic.h"

#include <capnp/message.h>

#include "common/text/foreign-text.h"
#include "common/yaml/yaml-codec.h"
#include "rpc/extensions.capnp.h"

namespace talos::extension {
namespace {

// Extensions are named after their publisher.
constexpr kj::StringPtr kPublisher = "siderolabs/"_kj;

class SchematicReader {
 public:
  SchematicReader(kj::StringPtr file, const codec::Places& places, Problems& problems)
      : file(file), places(places), problems(problems) {}

  void report(kj::StringPtr path, kj::String message, kj::String hint) {
    auto place = places.find(path);
    problems.add(Problem{.file = kj::str(file),
                         .line = place.line,
                         .column = place.column,
                         .path = kj::str(path),
                         .message = kj::mv(message),
                         .hint = kj::mv(hint)});
  }
  void refuse(bool isSet, kj::StringPtr path, kj::StringPtr reason, kj::StringPtr instead) {
    if (isSet) report(path, kj::str(reason), kj::str(instead));
  }

 private:
  kj::StringPtr file;
  const codec::Places& places;
  Problems& problems;
};

// Refuses what no part of the builder carries out.
void refuseOthers(SchematicReader& reader, Schematic::Reader schematic) {
  reader.refuse(schematic.hasOverlay(), "overlay", "images for single boards are not made",
                "remove it, and make the image with KERNEL= and TREE= (docs/customizing.md)");
  auto custom = schematic.getCustomization();
  reader.refuse(custom.hasMeta(), "customization.meta",
                "the values of META are not a part of images",
                "remove it, and write them with talosctl meta write");
  reader.refuse(custom.hasSecureboot(), "customization.secureboot",
                "a schematic does not choose how an image is signed", "remove it");
  reader.refuse(custom.hasEmbeddedMachineConfiguration(),
                "customization.embeddedMachineConfiguration", "images have no machine config",
                "remove it, and give the config by the platform or by talos.config= in "
                "extraKernelArgs");
  bool isOther = custom.hasBootloader() && custom.getBootloader() != "grub";
  reader.refuse(isOther, "customization.bootloader", "images have GRUB as their boot loader",
                "use grub, or remove it");
}

void addArguments(SchematicReader& reader, Customization::Reader custom, ImagePlan& plan) {
  auto arguments = custom.getExtraKernelArgs();
  for (auto i : kj::indices(arguments)) {
    auto path = kj::str("customization.extraKernelArgs[", i, "]");
    auto argument = arguments[i];
    bool printable = argument.size() > 0;
    for (char c : argument) printable = printable && c > ' ' && c < '\x7f' && c != '\'' && c != '"';
    if (!printable) {
      reader.report(path, kj::str(jsonString(argument), " is not one argument of the kernel"),
                    kj::str("use an item for each argument, without blanks and quotes"));
    } else if (argument.startsWith("-")) {
      reader.report(path, kj::str("the arguments of an image cannot be removed"),
                    kj::str("remove the item"));
    } else {
      plan.arguments.add(kj::str(argument));
    }
  }
}

void addExtensions(SchematicReader& reader, Customization::Reader custom,
                   kj::ArrayPtr<const kj::String> known, ImagePlan& plan) {
  auto names = custom.getSystemExtensions().getOfficialExtensions();
  for (auto i : kj::indices(names)) {
    auto path = kj::str("customization.systemExtensions.officialExtensions[", i, "]");
    kj::StringPtr name = names[i];
    if (name.startsWith(kPublisher)) name = name.slice(kPublisher.size());
    bool isKnown = false, isTwice = false;
    for (auto& other : known) isKnown = isKnown || other == name;
    for (auto& other : plan.extensions) isTwice = isTwice || other == name;
    if (!isKnown) {
      reader.report(path, kj::str(jsonString(names[i]), " cannot be made here"),
                    kj::str("use one of ", kj::strArray(known, ", "),
                            ", or name an image of it in make installer-image EXTENSIONS="));
    } else if (isTwice) {
      reader.report(path, kj::str(jsonString(names[i]), " is named twice"),
                    kj::str("remove one of the two"));
    } else {
      plan.extensions.add(kj::str(name));
    }
  }
}

}  // namespace

ImagePlan planOf(kj::StringPtr text, kj::StringPtr file, kj::ArrayPtr<const kj::String> known,
                 Problems& problems) {
  capnp::MallocMessageBuilder message;
  auto schematic = message.initRoot<Schematic>();
  codec::Places places;
  ImagePlan plan;
  if (!codec::readYaml(text, schematic, problems, {.file = file}, &places)) return plan;
  SchematicReader reader(file, places, problems);
  refuseOthers(reader, schematic);
  addArguments(reader, schematic.getCustomization(), plan);
  addExtensions(reader, schematic.getCustomization(), known, plan);
  return plan;
}

}  // namespace talos::extension
