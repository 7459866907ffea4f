// SPDX-License-Identifier: MIT OR GPL-2.0
/* Receivers, and the descriptors that stand for one vector of a receiver. */
#include <linux/anon_inodes.h>
#include <linux/file.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "internal.h"

struct quaver_vector_file {
	struct quaver_receiver *receiver;
	u32 vector;
};

static struct kmem_cache *receivers;

int quaver_receivers_init(void)
{
	receivers = kmem_cache_create("quaver_receiver", sizeof(struct quaver_receiver),
				      __alignof__(struct quaver_receiver), 0, NULL);
	return receivers ? 0 : -ENOMEM;
}

void quaver_receivers_exit(void)
{
	kmem_cache_destroy(receivers);
}

struct quaver_receiver *quaver_receiver_new(void)
{
	struct quaver_receiver *receiver = kmem_cache_zalloc(receivers, GFP_KERNEL_ACCOUNT);

	if (!receiver)
		return NULL;
	kref_init(&receiver->ref);
	receiver->upid.nv = QUAVER_HARDWARE_VECTOR;
	__set_bit(QUAVER_UPID_SN, &receiver->upid.control);
	return receiver;
}

static void receiver_free(struct kref *ref)
{
	kmem_cache_free(receivers, container_of(ref, struct quaver_receiver, ref));
}

/* No CPU may still be sending to it: table.c takes care of that. */
void quaver_receiver_put(struct quaver_receiver *receiver)
{
	if (receiver)
		kref_put(&receiver->ref, receiver_free);
}

static int vector_release(struct inode *inode, struct file *file)
{
	struct quaver_vector_file *vector = file->private_data;

	quaver_receiver_put(vector->receiver);
	kfree(vector);
	return 0;
}

static const struct file_operations vector_operations = {
	.owner = THIS_MODULE,
	.release = vector_release,
};

int quaver_vector_fd(struct quaver_receiver *receiver, u32 vector)
{
	struct quaver_vector_file *file;
	int fd;

	if (vector >= 64)
		return -EINVAL;
	file = kzalloc(sizeof(*file), GFP_KERNEL_ACCOUNT);
	if (!file)
		return -ENOMEM;
	file->vector = vector;
	file->receiver = receiver;
	kref_get(&receiver->ref);
	fd = anon_inode_getfd("[quaver-vector]", &vector_operations, file, O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		quaver_receiver_put(receiver);
		kfree(file);
	}
	return fd;
}

/* The receiver, of which the caller gets a reference, and the vector that a descriptor stands for. */
struct quaver_receiver *quaver_receiver_of_fd(int fd, u32 *vector)
{
	struct quaver_vector_file *target;
	struct quaver_receiver *receiver;
	struct file *file = fget(fd);

	if (!file)
		return ERR_PTR(-EBADF);
	if (file->f_op != &vector_operations) {
		fput(file);
		return ERR_PTR(-EINVAL);
	}
	target = file->private_data;
	receiver = target->receiver;
	*vector = target->vector;
	kref_get(&receiver->ref);
	fput(file);
	return receiver;
}
