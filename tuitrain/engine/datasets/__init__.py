"""Where samples come from: files of CIFAR-10, folders of images, data of the person's own, and what is made up."""
